//! What Linux says of a running process: CPU time and memory. And how long one is waited for.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Clock ticks a second in /proc: 100 on every Linux that a Redis runs on (USER_HZ).
const TICKS: u64 = 100;

/// Longer than this nothing is waited for that gives no sign of life: the section fails, and the next one begins.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A process' memory, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Resident now.
    pub rss: u64,
    /// The most that ever was resident.
    pub peak: u64,
}

/// CPU time of all threads since the process began, those that have ended included. Works for one that has exited too,
/// until it is waited for.
pub fn cpu(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    // The second field is the command in parentheses, which may hold blanks; user and system time are the 14th and 15th.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let (Some(Ok(user)), Some(Ok(system))) = (times.next(), times.next()) else {
        anyhow::bail!("{path} has no CPU times: {text}");
    };
    Ok(Duration::from_millis((user + system) * 1000 / TICKS))
}

/// Memory of a running process.
pub fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let field = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.map(|kib| kib << 10).with_context(|| format!("{path} has no {name}"))
    };
    Ok(Memory { rss: field("VmRSS:")?, peak: field("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_used_its_cpu() {
        let memory = memory(std::process::id()).expect("memory");
        assert!(memory.rss > 0 && memory.peak >= memory.rss);
        let began = std::time::Instant::now();
        let before = cpu(std::process::id()).expect("CPU time");
        while cpu(std::process::id()).expect("CPU time") == before {
            assert!(began.elapsed() < Duration::from_secs(20), "CPU time stands still");
        }
    }
}
