//! The command as a process: its exit status, and which words go where.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn parser(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parser"));
    command.args(arguments).env_remove("RUST_LOG").env_remove("REDIS_PASSWORD").stdin(Stdio::null());
    command
}

fn ended(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    ended(parser(arguments).output().expect("the command runs"))
}

fn file(yaml: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("parser.yaml");
    std::fs::write(&path, yaml).expect("written");
    (folder, path)
}

const GOOD: &str = "ship: {url: ws://node}\nredis:\n  url: redis://h\n  password: ${REDIS_PASSWORD:-}\n";

#[test]
fn help_is_no_failure_and_wrong_usage_is_2() {
    for arguments in [&["--help"][..], &["run", "--help"], &["capture", "serve", "--help"], &["--version"]] {
        let (status, stdout, stderr) = run(arguments);
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(stdout.contains("parser"), "{arguments:?}: {stdout}");
    }
    for arguments in [
        "",
        "rum",
        "run",
        "run --config x --start-block -1",
        "run --config x --start-block 0",
        "run --config x --stop-block 0",
        "capture serve f --listen a --drop-after 1 --cut-after 1",
        "capture serve f --listen a --faults 1",
        "capture record --ship http://x --start-block 1 --stop-block 2 --out f",
        "capture record --ship ws://x --start-block 3 --stop-block 2 --out f",
    ] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let (status, stdout, stderr) = run(&arguments);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(!stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_wrong_configuration_is_2_with_every_problem_on_stderr() {
    let (_folder, path) = file("ship: {urll: ws://x}\n");
    let path = path.to_str().expect("a plain path");
    for arguments in [&["config", "check", path][..], &["run", "--config", path]] {
        let (status, stdout, stderr) = run(arguments);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert_eq!(
            stderr,
            format!(
                "parser: {path}: the configuration cannot be used\n  ship.url: is missing\n  \
                 redis.url: is missing\n  line 1: unknown key `ship.urll`: did you mean `ship.url`?\n"
            )
        );
    }
    let (status, _, stderr) = run(&["config", "check", "no-such-file"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("no-such-file: No such file"), "{stderr}");
}

#[test]
fn a_good_configuration_is_printed_without_its_secrets() {
    let (_folder, path) = file(GOOD);
    let mut command = parser(&["config", "check", path.to_str().expect("a plain path")]);
    let output = command.env("REDIS_PASSWORD", "s3cret").output().expect("the command runs");
    let (status, stdout, stderr) = ended(output);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("namespace: parser2") && stdout.contains("***"), "{stdout}");
    assert!(!stdout.contains("s3cret"), "{stdout}");
}

#[test]
fn what_has_no_effect_is_said() {
    let (_folder, path) = file(&format!("{GOOD}noSignalHandlers: true\n"));
    let path = path.to_str().expect("a plain path");
    let (status, _, stderr) = run(&["config", "check", path]);
    assert_eq!(status, Some(0));
    assert!(stderr.starts_with("warning: noSignalHandlers has no effect"), "{stderr}");
}

#[test]
fn a_recording_is_not_overwritten_unless_asked_for() {
    let (_folder, path) = file("precious");
    let path = path.to_str().expect("a plain path");
    let record =
        ["capture", "record", "--ship", "ws://127.0.0.1:1", "--start-block", "1", "--stop-block", "2"];
    let (status, _, stderr) = run(&[&record[..], &["--out", path]].concat());
    assert_eq!(status, Some(2));
    assert!(stderr.contains(path) && stderr.contains("--force"), "{stderr}");
    assert_eq!(std::fs::read_to_string(path).expect("it is there"), "precious");
}

#[test]
fn a_password_on_the_command_line_is_refused_without_repeating_it() {
    let arguments = "capture record --ship ws://u:s3cret@x --start-block 1 --stop-block 2 --out f";
    let (status, _, stderr) = run(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(status, Some(2));
    assert!(stderr.contains("--ship: a password must not be written out"), "{stderr}");
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

#[test]
fn a_reader_that_leaves_early_ends_it_quietly() {
    let (_folder, path) = file(GOOD);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = parser(&["config", "check", path.to_str().expect("a plain path")]);
    let output = command.stdout(writer).stderr(Stdio::piped()).spawn().and_then(|c| c.wait_with_output());
    let (status, _, stderr) = ended(output.expect("the command runs"));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
}
