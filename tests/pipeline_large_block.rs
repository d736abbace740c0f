//! One block far larger than any transaction, as a node sends first when it was started from a
//! snapshot: it passes in parts, and the memory stays near the frame's size.
//!
//! `PARSER_TEST_BLOCK_MB=300` makes it as large as real ones are.

#[path = "captures/mod.rs"]
mod captures;
#[path = "support/made.rs"]
mod made;
#[path = "support/redis.rs"]
mod redis_server;

use std::io::Write;
use std::process::{Command, Stdio};

use bytes::Bytes;
use captures::{made_up, serve};
use made::{bytes, varuint};
use parser::capture::edit;
use parser::capture::serve::ServeOptions;
use parser::name::Name;
use redis_server::TestRedis;

/// Bytes of a row's one field.
const ROW: usize = 1000;
const CONTRACT: Name = Name::literal("bigcontract");

/// `eosio::abi/1.1` with the table `rows` of the struct `row { data: bytes }`.
fn abi() -> Vec<u8> {
    let mut abi = Vec::new();
    bytes(&mut abi, b"eosio::abi/1.1");
    abi.push(0); // types
    abi.push(1); // structs
    bytes(&mut abi, b"row");
    bytes(&mut abi, b"");
    abi.push(1);
    bytes(&mut abi, b"data");
    bytes(&mut abi, b"bytes");
    abi.push(0); // actions
    abi.push(1); // tables
    abi.extend_from_slice(&Name::literal("rows").0.to_le_bytes());
    bytes(&mut abi, b"i64");
    abi.extend_from_slice(&[0, 0]); // key names, key types
    bytes(&mut abi, b"row");
    abi.extend_from_slice(&[0, 0, 0, 0]); // ricardian clauses, error messages, extensions, variants
    abi
}

/// `table_delta[]` with the contract's account and so many rows of it.
fn deltas(rows: usize) -> Bytes {
    let mut out = vec![2];
    out.push(0);
    bytes(&mut out, b"account");
    let mut account = vec![0];
    account.extend_from_slice(&CONTRACT.0.to_le_bytes());
    account.extend_from_slice(&[0; 4]);
    bytes(&mut account, &abi());
    out.extend_from_slice(&[1, 1]);
    bytes(&mut out, &account);
    out.push(0);
    bytes(&mut out, b"contract_row");
    varuint(&mut out, rows as u64);
    let mut row = Vec::new();
    for key in 0..rows as u64 {
        row.clear();
        row.push(0);
        for name in [CONTRACT, CONTRACT, Name::literal("rows")] {
            row.extend_from_slice(&name.0.to_le_bytes());
        }
        row.extend_from_slice(&key.to_le_bytes());
        row.extend_from_slice(&CONTRACT.0.to_le_bytes());
        let mut value = Vec::new();
        bytes(&mut value, &[key as u8; ROW]);
        bytes(&mut row, &value);
        out.push(1);
        bytes(&mut out, &row);
    }
    out.into()
}

/// Peak of a process's resident memory, in MB.
fn peak(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("VmHWM");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).expect("a number") >> 10
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_larger_than_a_transaction_passes_in_parts_in_little_memory() {
    let megabytes = std::env::var("PARSER_TEST_BLOCK_MB").map_or(24, |mb| mb.parse().expect("a number"));
    let rows = (megabytes << 20) / (ROW + 60);
    let mut capture = made_up(&[(2, 0), (3, 0), (4, 0)], 1);
    let protocol = capture.protocol.clone();
    let big = deltas(rows);
    for (i, frame) in capture.frames.iter_mut().enumerate() {
        *frame = edit::change(frame, &protocol, |result| {
            result.traces = Some(Bytes::from_static(&[0]));
            if i == 1 {
                result.deltas = Some(big.clone());
            }
        });
    }
    drop(big);
    let frame = capture.frames[1].len() >> 20;
    let node =
        serve(&capture, ServeOptions { fragment_bytes: Some(1 << 20), ..ServeOptions::default() }).await;
    drop(capture);
    let redis = TestRedis::start().await;
    let mut config = tempfile::NamedTempFile::new().expect("a file");
    let ship = node.url();
    let url = redis.url();
    writeln!(config, "{{ship: {{url: '{ship}'}}, redis: {{url: '{url}'}}, startBlock: 2}}").expect("written");
    let mut parser = Command::new(env!("CARGO_BIN_EXE_parser"))
        .args(["run", "--config"])
        .arg(config.path())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the parser starts");
    let mut client = redis.client().await;
    let mut transactions = std::collections::BTreeSet::new();
    loop {
        let keys: Vec<String> =
            redis::cmd("KEYS").arg("parser2:sync:*").query_async(&mut client).await.expect("keys");
        if let Some(key) = keys.first() {
            let (block, part): (u32, Option<u64>) = redis::cmd("HMGET")
                .arg((key, "block_num", "part"))
                .query_async(&mut client)
                .await
                .expect("the checkpoint");
            transactions.extend(part);
            if block == 4 {
                break;
            }
        }
        assert!(parser.try_wait().expect("a process").is_none(), "the parser has ended");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let peak = peak(parser.id());
    parser.kill().expect("killed");
    parser.wait().expect("ended");
    let streams: Vec<String> =
        redis::cmd("KEYS").arg("ce:*:events").query_async(&mut client).await.expect("keys");
    let length: usize = redis::cmd("XLEN").arg(&streams[0]).query_async(&mut client).await.expect("a length");
    let info: String = redis::cmd("INFO").arg("memory").query_async(&mut client).await.expect("info");
    let used = info.lines().find(|line| line.starts_with("used_memory_peak_human")).unwrap_or_default();
    println!("frame {frame} MB, parser peak {peak} MB, Redis {used}, {length} entries");
    // The account, its rows; the rows of the two small blocks are none.
    assert_eq!(length, rows + 1);
    assert!(transactions.len() > 2, "parts seen: {transactions:?}");
    assert!(peak < 2 * frame + 100, "peak {peak} MB for a frame of {frame} MB");
    let last: Vec<(String, Vec<(String, String)>)> = redis::cmd("XREVRANGE")
        .arg((&streams[0], "+", "-", "COUNT", 2))
        .query_async(&mut client)
        .await
        .expect("entries");
    // The account's row is a native delta, behind all rows of contracts.
    assert!(last[0].1[0].1.contains("\"native-delta\""), "{}", last[0].1[0].1);
    let value = format!("\"value\":{{\"data\":\"{}\"}}", format!("{:02X}", (rows - 1) as u8).repeat(ROW));
    assert!(last[1].1[0].1.contains(&value), "{}", last[1].1[0].1);
    assert_eq!(last[1].0, format!("3-{rows}"));
}
