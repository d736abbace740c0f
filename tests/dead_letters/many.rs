//! Many dead letters, in bounded memory and in good time.

use std::process::Stdio;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

use crate::made::{CHAIN, abi, block, go, name};
use crate::run::keys;
use crate::stage::{FROM_10, Stage};
use crate::support::on_demand;

/// A stream of that many letters like the one there is, each with an event of its own.
async fn fill(client: &mut MultiplexedConnection, count: u64) {
    let keys = keys(&CHAIN);
    let letters = crate::run::entries(client, &keys.dead_parser).await;
    let (_, fields) = &letters[0];
    let sequence = |i: u64| 1_000_000 + i;
    for from in (1..=count).step_by(5_000) {
        let mut pipe = redis::pipe();
        for i in from..(from + 5_000).min(count + 1) {
            let fields: Vec<(String, String)> = fields
                .iter()
                .map(|(name, value)| {
                    let own = value.replace(":100\"", &format!(":{}\"", sequence(i)));
                    (
                        name.clone(),
                        own.replace(
                            "\"global_sequence\":\"100\"",
                            &format!("\"global_sequence\":\"{}\"", sequence(i)),
                        ),
                    )
                })
                .collect();
            pipe.cmd("XADD").arg((&keys.dead_parser, format!("10-{}", i + 1))).arg(&fields).ignore();
        }
        pipe.exec_async(client).await.expect("XADD");
    }
    // Letters bear ids of events.
    let last = format!("10-{}", count + 1);
    redis::pipe()
        .cmd("XADD")
        .arg((&keys.events, &last, "data", &fields[0].1))
        .ignore()
        .hset(&keys.sync, "stream_id", &last)
        .ignore()
        .exec_async(client)
        .await
        .expect("XADD");
}

/// The highest memory that the process has had, in KiB.
fn peak_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_letters_need_no_more_memory_than_a_few() {
    let count = if on_demand() { 100_000 } else { 20_000 };
    let stage = Stage::new(&[block(10, 0).acts(&[go("stranger", 100, 0, &[1, 0, 0, 0])])], FROM_10).await;
    stage.publish().await;
    let mut client = stage.client().await;
    fill(&mut client, count).await;
    stage.put_abi(name("stranger"), 9, &abi(&[("a", "uint32")])).await;
    for arguments in [
        &["dead-letters", "list", "--json"][..],
        &["dead-letters", "replay", "--all", "--dry-run"],
        &["dead-letters", "replay", "--all"],
    ] {
        let begun = Instant::now();
        let mut command = stage.command(&stage.yaml(), arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        let mut peak = 0;
        let status = loop {
            peak = peak_kib(child.id()).unwrap_or(0).max(peak);
            if let Some(status) = child.try_wait().expect("a process") {
                break status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{arguments:?}: {count} letters in {seconds:.1} s ({:.0}/s), {} MiB",
            count as f64 / seconds,
            peak >> 10
        );
        assert!(status.success());
        assert!(peak < 64 << 10, "{arguments:?}: {peak} KiB");
    }
    let left: (u64, u64) = redis::pipe()
        .cmd("XLEN")
        .arg(&keys(&CHAIN).dead_parser)
        .cmd("XLEN")
        .arg(&keys(&CHAIN).events)
        .query_async(&mut client)
        .await
        .expect("XLEN");
    assert_eq!(left, (0, count + 3));
}
