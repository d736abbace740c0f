//! Signals, in a process of their own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use parser::shutdown::Shutdown;
use rustix::process::{Pid, Signal, kill_process};

const CHILD: &str = "PARSER_TEST_CHILD";

/// Not a test of its own: what the process under test does.
#[tokio::test]
async fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let shutdown = Shutdown::on_signals().expect("signals can be listened to");
    println!("listening");
    shutdown.requested().await;
    assert!(shutdown.is_requested());
    println!("asked to stop");
    // As if something in flight took for ever.
    std::future::pending::<()>().await;
}

#[test]
fn the_first_signal_asks_and_the_second_one_ends() {
    for (first, second) in [(Signal::TERM, Signal::INT), (Signal::INT, Signal::INT)] {
        let mut child: Child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let pid = Pid::from_child(&child);
        let mut lines =
            BufReader::new(child.stdout.take().expect("its output")).lines().map_while(Result::ok);
        let mut until = |text: &str| assert!(lines.any(|line| line.contains(text)), "never {text}");
        until("listening");
        kill_process(pid, first).expect("sent");
        until("asked to stop");
        kill_process(pid, second).expect("sent");
        assert_eq!(child.wait().expect("it ends").code(), Some(1));
    }
}

#[tokio::test]
async fn without_signals_somebody_else_can_ask() {
    let (stop, shutdown) = Shutdown::new();
    assert!(!shutdown.is_requested());
    let waiting = tokio::spawn({
        let shutdown = shutdown.clone();
        async move { shutdown.requested().await }
    });
    stop.stop();
    waiting.await.expect("asked");
    assert!(shutdown.is_requested());
}
