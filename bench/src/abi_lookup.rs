//! Section 2: finding the ABI in force, in Redis and in memory. The history is asked as the pipeline asks it: for a block.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use parser::history::{Fallback, History, Since, Store, Version};
use parser::name::Name;
use parser::plan::Plan;
use redis::aio::MultiplexedConnection;

use crate::made;
use crate::process::PATIENCE;
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Latency, Spread, number};
use crate::workload::Bench;

/// Times of the same look-up, and of the limit.
pub struct LookUps {
    /// The history asks Redis.
    pub redis: Latency,
    /// A GET of as many bytes.
    pub get: Latency,
    /// The history has it in memory.
    pub memory: Latency,
    /// A look-up in a hash map alone.
    pub map: Latency,
}

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    section.text(
        "The versions a block is decoded with, for one contract with 200 versions in its sorted set, each of the size of `eosio.token`'s ABI. From Redis: a history \
         with nothing in memory asks for the newest two, reads their base64, and is ready; the limit is a GET of as many bytes. From memory: the \
         contract is among those used lately; the time is that of the whole step for a block, the limit a look-up in a hash map.",
    );
    let look_ups = look_up(bench, 200, bench.pick(3_000, 10_000))?;
    let mut table = Table::new(&["", "p50 µs", "p99 µs", "p99.9 µs"]);
    for (what, latency) in [
        ("from Redis", &look_ups.redis),
        ("limit: GET", &look_ups.get),
        ("from memory", &look_ups.memory),
        ("limit: hash map", &look_ups.map),
    ] {
        let microseconds = |percent| number(latency.percentile(percent) * 1000.0);
        table.row(&[what.to_owned(), microseconds(50.0), microseconds(99.0), microseconds(99.9)]);
    }
    section.table(&table);
    let value = Spread::of([look_ups.redis.percentile(50.0) / look_ups.get.percentile(50.0)]);
    section.figures.push(
        Figure::ratio("abi-redis", "ABI from Redis against a GET, p50", value, Better::Lower).of(
            format!("{} ms", number(look_ups.redis.percentile(50.0))),
            format!("{} ms", number(look_ups.get.percentile(50.0))),
        ),
    );
    section
        .facts
        .extend([("abi_p50", look_ups.redis.percentile(50.0)), ("abi_p99", look_ups.redis.percentile(99.0))]);
    Ok(())
}

/// Looks one contract's ABI up again and again among so many versions.
pub fn look_up(bench: &Bench, versions: u32, times: usize) -> Result<LookUps> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let redis = Redis::start(Fsync::EverySecond)?;
    let contract = made::CONTRACT;
    let abi = bench.abi(contract)?;
    fill(&redis, bench, contract, &abi, versions)?;
    let num = versions + 10;
    let block = made::block(bench, num, &[made::transfer(bench)?]);
    let plan = made::plan(bench, &block)?;
    let keys = Arc::new(bench.keys.clone());
    let mut look_ups =
        LookUps { redis: Latency::new(), get: Latency::new(), memory: Latency::new(), map: Latency::new() };
    runtime.block_on(within(async {
        let client = redis::Client::open(redis.url())?;
        let mut connection: MultiplexedConnection = client.get_multiplexed_async_connection().await?;
        let bytes = 2 * version(&abi, 1).member().len();
        redis::cmd("SET").arg("same").arg(vec![b'x'; bytes]).exec_async(&mut connection).await?;
        for _ in 0..times {
            let store = Store::new(connection.clone(), keys.clone());
            let mut history = History::new(Some(store), Fallback::Publish, Vec::new(), BTreeMap::new());
            let began = Instant::now();
            let found = newest(&mut history, num, &plan, contract).await?;
            look_ups.redis.record(began.elapsed());
            ensure!(found == versions, "version {found} was found instead of {versions}");
            let began = Instant::now();
            let value: Vec<u8> = redis::cmd("GET").arg("same").query_async(&mut connection).await?;
            look_ups.get.record(began.elapsed());
            ensure!(value.len() == bytes, "GET gave other bytes");
        }
        let store = Store::new(connection.clone(), keys.clone());
        let mut history = History::new(Some(store), Fallback::Publish, Vec::new(), BTreeMap::new());
        newest(&mut history, num, &plan, contract).await?;
        let map: HashMap<Name, Arc<Version>> = HashMap::from([(contract, Arc::new(version(&abi, 1)))]);
        for _ in 0..10 * times {
            let began = Instant::now();
            newest(&mut history, num, &plan, contract).await?;
            look_ups.memory.record(began.elapsed());
            let began = Instant::now();
            black_box(map.get(&black_box(contract)).cloned());
            look_ups.map.record(began.elapsed());
        }
        Ok(look_ups)
    }))
}

/// Not for ever.
async fn within<T>(looking_up: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(2 * PATIENCE, looking_up).await.context("looking ABIs up takes too long")?
}

/// The block since which the version at the block's end is in force.
async fn newest(history: &mut History, num: u32, plan: &Plan, contract: Name) -> Result<u32> {
    let abis = history.block(num, plan).await?;
    let found = abis.contracts.get(&contract).and_then(|in_force| in_force.newest());
    Ok(found.context("no version was found")?.since.block)
}

/// The version of block `block`: every one has other bytes.
fn version(abi: &[u8], block: u32) -> Version {
    // Bytes behind an ABI's end mean nothing.
    let bytes = [abi, &block.to_le_bytes()].concat();
    Version::new(Since { block, sequence: block.into() }, &bytes)
}

/// Writes that many versions of a contract's ABI, one a block from block 1 on.
pub fn fill(redis: &Redis, bench: &Bench, contract: Name, abi: &[u8], versions: u32) -> Result<()> {
    let mut connection = redis.connect()?;
    let key = bench.keys.abi(contract);
    let blocks: Vec<u32> = (1..=versions).collect();
    for some in blocks.chunks(1000) {
        let members: Vec<(u32, String)> =
            some.iter().map(|&block| (block, version(abi, block).member())).collect();
        let mut command = redis::cmd("ZADD");
        command.arg(&key);
        for (score, member) in members {
            command.arg(score).arg(member);
        }
        command.exec(&mut connection)?;
    }
    Ok(())
}
