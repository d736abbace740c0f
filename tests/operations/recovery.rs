//! The recoveries: something is broken, then the page is followed, then all is whole.

use parser::block::Position;
use parser::capture::edit;
use parser::capture::file::Capture;
use parser::capture::serve::ServeOptions;
use parser::keys::Keys;

use crate::machine::Machine;
use crate::support::captures;
use crate::support::expected::Recording;
use crate::support::stage::undisturbed;
use crate::support::written::Written;

fn mixed() -> Capture {
    Recording::bundled("mixed-100").capture
}

/// The entries from that block on.
fn from_block(written: &Written, num: u32) -> &[(String, String)] {
    let below =
        |(id, _): &(String, String)| id.split('-').next().and_then(|n| n.parse::<u32>().ok()) < Some(num);
    &written.events[written.events.partition_point(below)..]
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_lost_its_data_and_there_is_a_copy() {
    let machine = Machine::new(&mixed(), "startBlock: first\nstopBlock: 60").await;
    machine.quietly("systemctl start parser");
    machine.ended();
    machine.follow("Redis lost its data, and there is a copy");
    machine.configure("startBlock: first");
    machine.quietly("systemctl start parser");
    machine.quietly("systemctl stop redis-server; rm -rf redis/*; systemctl start redis-server");
    machine.follow("Bringing a copy back");
    machine.written().await.assert_same(&undisturbed(&mixed(), "").await, "from the copy on");
    // It lasts.
    machine.quietly("systemctl stop parser; systemctl stop redis-server; systemctl start redis-server");
    machine.written().await.assert_same(&undisturbed(&mixed(), "").await, "after a restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_lost_its_data_and_there_is_no_copy() {
    let chain = mixed().status.chain_id.expect("a chain id");
    let machine = Machine::new(&mixed(), &format!("startBlock: first\nchain: {{id: {chain}}}")).await;
    machine.quietly("systemctl start parser");
    machine.call("redis-cli FLUSHALL");
    machine.ended();
    machine.follow("Redis lost its data, and there is no copy");
    let (found, whole) = (machine.written().await, undisturbed(&mixed(), "").await);
    assert!(found.events == from_block(&whole, 50), "the same entries from block 50 on");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checkpoint_is_lost() {
    let machine = Machine::new(&mixed(), "startBlock: first\nstopBlock: 80").await;
    machine.quietly("systemctl start parser");
    machine.ended();
    machine.configure("startBlock: first");
    machine.call("redis-cli DEL parser2:sync:$chain; systemctl start parser");
    machine.ended();
    machine.follow("The checkpoint is lost");
    assert!(
        machine.written().await.events == undisturbed(&mixed(), "").await.events,
        "nothing twice, nothing missing"
    );
}

/// The capture as a node has it that followed another branch from that block on.
fn other_branch(from: u32) -> Capture {
    let mut capture = mixed();
    let protocol = capture.protocol.clone();
    let mark = |position: Position| match position.num {
        num if num >= from => edit::marked(position, num, 7),
        _ => position,
    };
    for frame in &mut capture.frames {
        let Some(this) = captures::block(frame, &protocol) else { continue };
        let mut prev = None;
        *frame = edit::change(frame, &protocol, |result| {
            result.head = mark(result.head);
            result.last_irreversible = mark(result.last_irreversible);
            prev = result.prev_block.map(mark);
        });
        if let Some(prev) = prev {
            *frame = edit::relink(frame, &protocol, mark(this), prev);
        }
    }
    capture
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_is_on_another_fork() {
    let machine = Machine::new(&mixed(), "startBlock: first\nstopBlock: 99").await;
    machine.quietly("systemctl start parser");
    machine.ended();
    let wrong = captures::serve(&other_branch(50), ServeOptions::default()).await;
    machine.configure(&format!("ship: {{url: '{}'}}", wrong.url()));
    machine.expect("parser status --config parser.yaml | grep -q fork-too-deep");
    machine.quietly("systemctl start parser");
    machine.expect_block(100);
    machine.follow("The node is on another fork");
    machine.quietly("systemctl stop parser");
    machine.written().await.assert_same(&undisturbed(&mixed(), "").await, "with the right node");
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_anew() {
    let machine = Machine::new(&mixed(), "startBlock: first").await;
    machine.quietly("systemctl start parser");
    machine.quietly("systemctl stop parser");
    let anew = Keys::new("anew", &mixed().status.chain_id.expect("a chain id"), "");
    machine.expect(&format!("[ \"$(redis-cli HGET {} block_num)\" = 100 ]", anew.sync));
    machine.follow("Publishing anew");
    let found = Written::read(&mut machine.client().await, &anew).await;
    assert!(found.events == undisturbed(&mixed(), "").await.events);
    assert!(found.rest.keys().all(|key| key.contains("anew")), "{:?}", found.rest.keys());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_is_full() {
    let machine =
        Machine::new(&mixed(), "startBlock: first\nxtrim: {maxEntries: 500, intervalMs: 100}").await;
    for group in ["old", "web"] {
        machine.call(&format!("redis-cli XGROUP CREATE $events {group} 0 MKSTREAM"));
    }
    machine.expect("[ \"$(redis-cli XLEN $events)\" -ge 500 ]");
    machine.quietly("systemctl start parser");
    // One that reads on, and one that is long gone.
    let reading = "XREADGROUP GROUP web one COUNT 1000 NOACK STREAMS $events '>'";
    machine.file("reader", &format!("while sleep 0.05; do redis-cli {reading} >/dev/null; done"));
    machine.quietly("bash reader >/dev/null 2>&1 & echo $! >.reader");
    machine.follow("The stream is full");
    machine.quietly("kill $(cat .reader)");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_full() {
    let machine = Machine::new(&mixed(), "startBlock: first").await;
    machine.quietly(
        "echo 'maxmemory 4mb' >>redis.conf; systemctl stop redis-server; systemctl start redis-server",
    );
    machine.expect("journalctl -u parser -o cat -n 1 | grep -q OOM");
    machine.quietly("systemctl start parser");
    machine.follow("Redis is full");
    machine.expect_block(100);
    machine.quietly("until bash expected; do sleep 0.05; done");
    machine.written().await.assert_same(&undisturbed(&mixed(), "").await, "with more memory");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_lacks_blocks() {
    let machine = Machine::new(&mixed(), "startBlock: first\nstopBlock: 40").await;
    machine.quietly("systemctl start parser");
    machine.ended();
    let mut later = mixed();
    later.frames.drain(..60);
    let short = captures::serve(&later, ServeOptions::default()).await;
    machine.configure(&format!("ship: {{url: '{}'}}", short.url()));
    machine.quietly("systemctl start parser");
    machine.ended();
    machine.follow("The node lacks blocks");
    machine.written().await.assert_same(&undisturbed(&mixed(), "").await, "with the longer history");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_abi_was_published() {
    let machine = Machine::new(&mixed(), "startBlock: first").await;
    machine.quietly("systemctl start parser");
    let fields = [("id", "uint64"), ("owner", "name"), ("memo", "string")];
    let fields = fields.map(|(name, kind)| serde_json::json!({"name": name, "type": kind}));
    let right = serde_json::json!({
        "version": "eosio::abi/1.1",
        "structs": [{"name": "put", "base": "", "fields": fields}],
        "actions": [{"name": "put", "type": "put", "ricardian_contract": ""}],
    });
    machine.file("fixed.json", &right.to_string());
    machine.follow("A wrong ABI was published");
    // 0x25 in 64 bits, `alice`, and three characters: as its bytes say (global sequence 823).
    let events = machine.written().await.events;
    let replayed = events.iter().filter(|(_, data)| data.ends_with(r#""replayed":true}"#));
    let mends: Vec<&str> = replayed.map(|(_, data)| data.as_str()).collect();
    let mended =
        mends.iter().find(|data| data.contains(r#""global_sequence":"823""#)).expect("it is replayed");
    assert!(mended.contains(r#""data":{"id":"37","owner":"alice","memo":"A37"}"#), "{mended}");
}

/// What the TypeScript version leaves behind at a block: entries under ids by Redis, its checkpoint, plain ABIs, a group.
async fn left_by_typescript(machine: &Machine, reference: &Written, at: u32) {
    let client = &mut machine.client().await;
    let mut pipe = redis::pipe();
    // Without a parser of JSON, which nesting as deep as in there is too much for.
    let field = |data: &str, name: &str| {
        let rest =
            data.split_once(&format!("\"{name}\":")).map(|(_, rest)| rest.to_owned()).expect("a field");
        rest.split([',', '}']).next().expect("a value").trim_matches('"').to_owned()
    };
    let mut block_id = String::new();
    for data in
        reference.data().filter(|data| field(data, "block_num").parse::<u32>().expect("a number") <= at)
    {
        pipe.xadd(&machine.keys.events, "*", &[("data", data)]).ignore();
        block_id = field(data, "block_id");
    }
    let fields = [
        ("block_num", at.to_string()),
        ("block_id", block_id),
        ("last_updated", "2026-11-30T12:00:00.000Z".into()),
    ];
    pipe.hset_multiple(&machine.keys.sync, &fields).ignore();
    for (key, versions) in reference.rest.iter().filter(|(key, _)| key.starts_with("parser2:abi:")) {
        let versions: Vec<(String, u32)> = redis::from_redis_value(versions.clone()).expect("a sorted set");
        for (member, block) in versions.iter().filter(|(_, block)| *block <= at) {
            pipe.zadd(key, member.rsplit(':').next().expect("base64"), *block).ignore();
        }
    }
    pipe.xgroup_create(&machine.keys.events, "web", "$").ignore();
    pipe.exec_async(client).await.expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_over_from_the_typescript_version() {
    let machine = Machine::new(&mixed(), "").await;
    let reference = undisturbed(&mixed(), "compat: parser2").await;
    left_by_typescript(&machine, &reference, 60).await;
    let parts = [
        format!("ship:\n  url: {}\n  timeoutMs: 10000\n", machine.node.url()),
        machine.call("grep ^redis: parser.yaml"),
        "workerPool:\n  maxThreads: 2\nabiFallback: rpc-current\nxtrim:\n  enabled: true\n  intervalMs: 60000\n".to_owned(),
        "reconnect:\n  maxAttempts: -1\ndeserializer: wharfkit\nlogger:\n  level: info\n".to_owned(),
    ];
    machine.file("parser.config.yaml", &parts.concat());
    machine.follow("Moving over from the TypeScript version");
    // What the group had read before may be trimmed.
    let (found, whole) = (machine.written().await, reference.data().collect::<Vec<_>>());
    let found: Vec<&str> = found.data().collect();
    assert!(found.len() >= 920 && whole.ends_with(&found), "as if it had written all of it");
}
