//! What this process takes, by the usual names.

use std::fmt;
use std::fs;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::encode::{counter, gauge};

/// This process.
#[derive(Debug)]
pub(super) struct Process {
    /// When it was started, since 1970.
    pub started: Duration,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let e = &mut encoder;
        gauge(
            e,
            "process_start_time_seconds",
            "When it was started, since 1970",
            self.started.as_secs_f64(),
        )?;
        if let Some(bytes) = resident_bytes() {
            gauge(e, "process_resident_memory_bytes", "Memory that it has", bytes as f64)?;
        }
        match cpu_seconds() {
            Some(seconds) => counter(e, "process_cpu_seconds", "CPU time that it took", seconds),
            None => Ok(()),
        }
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = status.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which can hold anything, utime and stime are the 12th and 13th field (proc(5)).
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}
