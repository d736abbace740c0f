//! Log lines, as a process of its own writes them to stderr.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use parser::config::Logger;
use parser::logging;
use tracing::level_filters::LevelFilter;

const CHILD: &str = "PARSER_TEST_CHILD";

/// Not a test of its own: what the process under test does.
#[test]
fn child() {
    let Ok(style) = std::env::var(CHILD) else { return };
    let level = if style == "silent" { LevelFilter::OFF } else { LevelFilter::INFO };
    let long = style == "flood" || style == "unread";
    let start = if long { logging::start_for_long } else { logging::start };
    if let Err(error) = start(Logger { level, pretty: style == "pretty" }) {
        eprintln!("{error}");
        return;
    }
    tracing::info!(target: "parser::node", block = 7, endpoint = "ws://a", "connected");
    tracing::debug!(target: "parser::node", "frame");
    tracing::info!(target: "some_library", "chatter");
    tracing::warn!(target: "some_library", "trouble");
    if style == "flood" {
        for block in 0..1000 {
            tracing::warn!(target: "parser::history", block, "an ABI was set that this history has not seen");
        }
        logging::end();
    }
    if style == "unread" {
        for block in 0..5000 {
            // Errors are never held back.
            tracing::error!(target: "parser::node", block, "{}", "a long line ".repeat(20));
        }
        println!("through");
    }
    logging::flush();
}

fn logged(style: &str, rust_log: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "child", "--nocapture"]).env(CHILD, style).env_remove("RUST_LOG");
    if let Some(directives) = rust_log {
        command.env("RUST_LOG", directives);
    }
    let Output { stderr, .. } = command.output().expect("it runs");
    String::from_utf8(stderr).expect("text")
}

#[test]
fn lines_are_json_with_the_facts_in_fields() {
    let lines: Vec<serde_json::Value> = logged("json", None)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let (first, second) = (&lines[0], &lines[1]);
    assert_eq!((&first["level"], &first["message"]), (&"INFO".into(), &"connected".into()));
    assert_eq!((&first["block"], &first["endpoint"]), (&7.into(), &"ws://a".into()));
    assert_eq!((&second["level"], &second["message"]), (&"WARN".into(), &"trouble".into()));
}

#[test]
fn the_same_a_thousand_times_is_counted() {
    let lines = logged("flood", None);
    let said: Vec<&str> = lines.lines().filter(|line| line.contains("has not seen")).collect();
    assert_eq!(said.len(), 21, "{lines}");
    let last: serde_json::Value = serde_json::from_str(said[20]).expect("JSON");
    assert_eq!((&last["message"], &last["times"]), (&"lines of this kind were left out".into(), &980.into()));
    assert_eq!(last["line"], "an ABI was set that this history has not seen");
}

/// A log driver that hangs, a terminal that is held: the program goes on, and ends.
#[test]
fn whoever_does_not_read_holds_nothing_up() {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, "unread")
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let stdout = BufReader::new(child.stdout.take().expect("stdout"));
    let (said, through) = mpsc::channel();
    std::thread::spawn(move || {
        let found = stdout.lines().map_while(Result::ok).filter(|line| line.contains("through")).count() == 1;
        let _ = said.send(found);
    });
    let through = through.recv_timeout(Duration::from_secs(60));
    if through.is_err() {
        let _ = child.kill();
    }
    assert_eq!(through, Ok(true));
    assert!(child.wait().expect("it ends").success());
    let mut stderr = String::new();
    child.stderr.take().expect("stderr").read_to_string(&mut stderr).expect("text");
    let lines = stderr.lines().count();
    assert!((100..5000).contains(&lines), "{lines}");
}

#[test]
fn pretty_lines_are_for_people() {
    let text = logged("pretty", None);
    assert!(text.contains("INFO connected block=7 endpoint=\"ws://a\""), "{text}");
    assert!(!text.contains('{') && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn rust_log_goes_before_the_level_and_must_be_right() {
    assert_eq!(logged("silent", None), "");
    assert!(logged("silent", Some("parser=debug")).contains("frame"));
    let text = logged("json", Some("parser=loud"));
    assert!(text.starts_with("RUST_LOG: `parser=loud`: "), "{text}");
}
