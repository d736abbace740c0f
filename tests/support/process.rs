//! The parser as a process.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, until};

/// `parser run`; killed when dropped. What it logs goes to a file.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it with that configuration, whose file and log have `name`.
    pub fn start(folder: &std::path::Path, name: &str, yaml: &str, arguments: &[&str]) -> Process {
        let config = folder.join(format!("{name}.yaml"));
        let log = folder.join(format!("{name}.log"));
        std::fs::write(&config, yaml).expect("a configuration file");
        let output = std::fs::File::create(&log).expect("a log file");
        let child = Command::new(env!("CARGO_BIN_EXE_parser"))
            .args(["run", "--config"])
            .arg(&config)
            .args(arguments)
            .env_remove("RUST_LOG")
            .env("REDIS_PASSWORD", "wr0ng-s3cret")
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log file"))
            .stderr(output)
            .spawn()
            .expect("the parser starts");
        Process { child, log }
    }

    /// All that it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("its log")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a process").is_none()
    }

    /// Waits until it has said that.
    pub async fn says(&mut self, text: &str) {
        until(&format!("`{text}`"), async || {
            let running = self.is_running();
            let said = self.log().contains(text);
            assert!(said || running, "it ended without `{text}`:\n{}", self.log());
            said.then_some(())
        })
        .await;
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    /// Ends it like `kill -9`. Says whether it was still running.
    pub fn kill(mut self) -> bool {
        let running = self.is_running();
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        running
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a process") {
                return (status, self.log());
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.log());
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }

    /// Waits for its end with that status, and gives what it said.
    pub async fn ended_with(self, expected: i32) -> String {
        let (status, log) = self.ended().await;
        assert_eq!(status.code(), Some(expected), "{log}");
        log
    }

    /// SIGTERM, on which it ends with 0.
    pub async fn stopped(self) -> String {
        self.signal(Signal::TERM);
        self.ended_with(0).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("--- {}\n{}", self.log.display(), self.log());
        }
    }
}
