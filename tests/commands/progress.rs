//! What a command shows of its progress: a line that is drawn anew at a terminal, nothing that moves the cursor elsewhere.

use std::process::Command;

use crate::world::World;

/// The commands that take their time, and what their line begins with.
fn commands(ship: &str) -> [(String, &'static str); 4] {
    [
        (
            format!("capture record --ship {ship} --start-block 1 --stop-block 60 --force --out recorded"),
            "recording block ",
        ),
        ("abi preload --ship --from 1 --to 60 --config parser.yaml".to_owned(), "reading block "),
        ("verify --config parser.yaml".to_owned(), "verifying block "),
        ("dead-letters replay --all --config parser.yaml".to_owned(), "replaying "),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_one_line_and_a_pipe_none() {
    let (world, node) = World::mixed("").await;
    for (call, line) in commands(node.url()) {
        let words: Vec<&str> = call.split(' ').collect();
        let piped = world.call_with(&words, "").await;
        assert_eq!(piped.status, Some(0), "{piped:?}");
        let printed = piped.out + &piped.err;
        assert!(!printed.contains(['\r', '\x1b']), "{call}: {printed:?}");
        assert!(!printed.contains(line), "{call}: {printed:?}");

        // `script` is a terminal to the command it runs.
        let mut command = Command::new("script");
        let program = format!("{} {call}", env!("CARGO_BIN_EXE_parser"));
        command.args(["-qec", &program, "/dev/null"]).current_dir(world.folder.path()).env("TERM", "xterm");
        command.stdin(std::process::Stdio::null());
        let ended = tokio::task::spawn_blocking(move || command.output()).await.expect("ended");
        let Ok(output) = ended else { return println!("skipped: `script` (util-linux) is not installed") };
        let shown = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{call}: {shown}");
        assert!(shown.contains(line), "{call}: {shown:?}");
        // Nothing of it is left when the result is printed.
        let last = shown.rsplit("\x1b[2K").next().expect("text");
        assert!(!last.contains(line) && !last.trim().is_empty(), "{call}: {shown:?}");
    }
}
