//! The machine, its state, and the versions of everything: what a reader must know to believe the figures.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::report::Table;

/// Above this share of all cores somebody else is at work.
const BUSY: f64 = 0.05;

/// What stands at the head of the report.
pub struct Machine {
    /// The commit measured.
    pub commit: String,
    /// Files that differ from it.
    dirty: Vec<String>,
    cores: usize,
    /// Load average, and the share of all cores that was busy, before anything was measured.
    load: String,
    busy: f64,
    cpu: String,
    memory_mb: u64,
    kernel: String,
    rustc: String,
    redis: String,
    /// The share that was busy again when all was done; `None` before.
    busy_after: Option<f64>,
}

// === impl Machine ===

impl Machine {
    /// Looks at it. Takes two seconds, in which nothing should run. `own` are the files that a measurement writes.
    pub fn look(root: &Path, own: &[&str]) -> Result<Machine> {
        let git = |arguments: &[&str]| said(Command::new("git").current_dir(root).args(arguments));
        let status = git(&["status", "--porcelain"])?;
        let dirty = status.lines().filter_map(|line| line.get(3..)).filter(|file| !own.contains(file));
        let cpu = file("/proc/cpuinfo")?;
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
        let memory = file("/proc/meminfo")?;
        let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let memory = memory.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(Machine {
            commit: git(&["rev-parse", "--short=12", "HEAD"])?,
            dirty: dirty.map(str::to_owned).collect(),
            cores: thread::available_parallelism()?.get(),
            load: file("/proc/loadavg")?.split_whitespace().take(3).collect::<Vec<_>>().join(" "),
            busy: busy(Duration::from_secs(2))?,
            cpu: cpu.trim_start_matches([' ', '\t', ':']).to_owned(),
            memory_mb: memory.unwrap_or_default() >> 10,
            kernel: said(Command::new("uname").arg("-sr"))?,
            rustc: said(Command::new("rustc").arg("--version"))?,
            redis: said(Command::new("redis-server").arg("--version"))?,
            busy_after: None,
        })
    }

    /// Looks again whether anybody else is at work.
    pub fn look_again(&mut self) -> Result<()> {
        self.busy_after = Some(busy(Duration::from_secs(2))?);
        Ok(())
    }

    /// As a table, and in bold what makes the figures doubtful.
    pub fn markdown(&self) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let mut table = Table::new(&["machine", ""]);
        let after = self.busy_after.map_or("not looked".to_owned(), percent);
        for (what, value) in [
            ("commit", self.commit.clone()),
            ("dirty", if self.dirty.is_empty() { "no" } else { "**yes**" }.to_owned()),
            ("CPU", format!("{}, {} cores", self.cpu, self.cores)),
            ("memory", format!("{} MB", self.memory_mb)),
            ("load average at the start", self.load.clone()),
            ("cores busy with something else", format!("{} before, {after} afterwards", percent(self.busy))),
            ("kernel", self.kernel.clone()),
            ("rustc", self.rustc.clone()),
            ("redis-server", self.redis.clone()),
        ] {
            table.row(&[what, &value]);
        }
        let mut out = format!("{}\n", table.markdown());
        if !self.dirty.is_empty() {
            out.push_str(&format!(
                "**The tree was dirty: these figures are not those of the commit. Changed: {}.**\n\n",
                self.dirty.join(", ")
            ));
        }
        if self.busy.max(self.busy_after.unwrap_or(0.0)) > BUSY {
            out.push_str("**The machine was busy with something else: these figures are too low, and lie too far apart.**\n\n");
        }
        out
    }
}

fn file(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {path}"))
}

/// What a program prints.
fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("failed to start {:?}", command.get_program()))?;
    anyhow::ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// The share of all cores that is busy, by the kernel's own count.
fn busy(during: Duration) -> Result<f64> {
    let times = || -> Result<(u64, u64)> {
        let stat = file("/proc/stat")?;
        let line = stat.lines().next().unwrap_or_default();
        let times: Vec<u64> = line.split_whitespace().skip(1).filter_map(|time| time.parse().ok()).collect();
        // Idle, and idle while a disk is waited for.
        let idle = times.iter().skip(3).take(2).sum();
        // Guests' time is counted in the first two already.
        Ok((idle, times.iter().take(8).sum()))
    };
    let before = times()?;
    thread::sleep(during);
    let after = times()?;
    let (idle, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    Ok(1.0 - idle as f64 / all.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(dirty: &[&str], busy: f64) -> Machine {
        Machine {
            commit: "abc".to_owned(),
            dirty: dirty.iter().map(|file| file.to_string()).collect(),
            cores: 2,
            load: "0.1 0.1 0.1".to_owned(),
            busy,
            cpu: "a CPU".to_owned(),
            memory_mb: 1024,
            kernel: "Linux".to_owned(),
            rustc: "rustc".to_owned(),
            redis: "redis".to_owned(),
            busy_after: Some(0.0),
        }
    }

    #[test]
    fn a_dirty_tree_and_a_busy_machine_stand_there_in_bold() {
        let clean = machine(&[], 0.01).markdown();
        assert!(!clean.contains("**"), "{clean}");
        let dirty = machine(&["src/lib.rs"], 0.01).markdown();
        assert!(dirty.contains("| dirty | **yes** |") && dirty.contains("src/lib.rs.**"), "{dirty}");
        let busy = machine(&[], 0.5).markdown();
        assert!(busy.contains("**The machine was busy"), "{busy}");
    }
}
