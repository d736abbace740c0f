//! Configuration files as users write them: what is taken, what is refused and with which words.

mod refused;

use std::env::VarError;
use std::path::Path;
use std::time::Duration;

use parser::config::{AbiFallback, Config, Deserializer, Json, KEYS, StreamIds, WhenFull};
use parser::filter::{ActionRule, DeltaRule, NativeDeltaRule, Rule};
use parser::name::Name;
use refused::assert_refused;
use tracing::level_filters::LevelFilter;

const LEAST: &str = "ship: {url: 'ws://node:8080'}\nredis: {url: 'redis://127.0.0.1:6379'}\n";

fn environment(name: &str) -> Result<String, VarError> {
    match name {
        "REDIS_PASSWORD" => Ok("s3cret".into()),
        "NODE" => Ok("node.example".into()),
        "THREADS" => Ok("3".into()),
        "TRICKY" => Ok("x\nredis: {url: 'redis://elsewhere'}".into()),
        "EMPTY" => Ok(String::new()),
        _ => Err(VarError::NotPresent),
    }
}

fn parse(yaml: &str) -> Result<Config, String> {
    Config::parse(yaml, Path::new(""), &environment).map_err(|error| error.to_string())
}

/// The least configuration with more keys, as written.
fn with(more: &str) -> Result<Config, String> {
    parse(&format!("{LEAST}{more}"))
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = parse(LEAST).expect("two keys are enough");
    assert_eq!(config.ship.url.len(), 1);
    assert_eq!(config.ship.url[0].as_str(), "ws://node:8080");
    assert_eq!(config.ship.timeout, Duration::from_millis(10_000));
    assert_eq!(config.ship.silence, Duration::from_secs(30));
    assert_eq!((config.chain.url, config.chain.id), (None, None));
    assert_eq!(config.redis.namespace, "parser2");
    assert_eq!((config.redis.password, config.redis.key_prefix.as_str()), (None, ""));
    assert_eq!((config.start_block, config.stop_block, config.confirmations), (None, None, 0));
    assert!(!config.irreversible_only);
    assert!(config.publish.actions && config.publish.deltas && config.publish.native_deltas);
    assert!(!config.publish.blocks && !config.publish.notifications);
    assert!(!config.publish.code_bytes && !config.publish.no_abi_dead_letters);
    assert!(config.filters.passes_all());
    assert_eq!(config.stream_ids, StreamIds::Block);
    assert_eq!((config.json, config.deserializer), (Json::Abieos, Deserializer::Compiled));
    assert_eq!(config.abi_fallback, AbiFallback::RpcCurrent);
    assert_eq!(config.max_messages_in_flight, 256);
    assert_eq!(config.max_message_bytes, 17_179_869_184);
    assert_eq!(config.max_in_flight_bytes, 268_435_456);
    let cores = std::thread::available_parallelism().expect("known here");
    assert_eq!(config.worker_pool.max_threads, cores.get());
    assert!(config.xtrim.enabled);
    assert_eq!(config.xtrim.interval, Duration::from_millis(60_000));
    assert_eq!((config.xtrim.keep_blocks, config.xtrim.max_entries), (None, Some(10_000_000)));
    assert_eq!(config.xtrim.when_full, WhenFull::Pause);
    assert_eq!(config.reconnect.max_attempts, None);
    assert_eq!(config.reconnect.backoff, [1, 2, 5, 15, 60].map(Duration::from_secs));
    assert_eq!((config.logger.level, config.logger.pretty), (LevelFilter::INFO, false));
    assert_eq!((config.health.enabled, config.health.port), (false, 9090));
    assert_eq!(config.health.lag_threshold, Duration::from_secs(30));
    assert_eq!((config.metrics.enabled, config.metrics.port), (false, 9100));
    assert!(config.compat.is_none() && config.abi.overrides.is_empty());
}

/// Every key of the TypeScript version, `deserializer` apart.
const TYPESCRIPT: &str = "
ship:
  url: ws://${NODE}:8080
  timeoutMs: 5000
chain:
  url: http://${NODE}:8888
  id: aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906
redis:
  url: redis://redis:6379
  password: ${REDIS_PASSWORD}
  keyPrefix: 'app:'
workerPool:
  maxThreads: ${THREADS}
abiFallback: fail
xtrim:
  enabled: false
  intervalMs: 1000
reconnect:
  maxAttempts: 7
  backoffSeconds: [0.5, 10]
logger:
  level: fatal
  pretty: true
health:
  enabled: true
  port: 8000
  lagThresholdSeconds: 5
metrics:
  enabled: true
  port: 8001
irreversibleOnly: true
noSignalHandlers: false
";

#[test]
fn a_file_of_the_typescript_version_is_taken() {
    let config = parse(TYPESCRIPT).expect("valid");
    assert_eq!(config.ship.url[0].as_str(), "ws://node.example:8080");
    assert_eq!(config.ship.timeout, Duration::from_secs(5));
    assert_eq!(config.chain.url.as_ref().map(|url| url.as_str()), Some("http://node.example:8888"));
    assert!(config.chain.id.is_some_and(|id| id.to_string().starts_with("aca376f206b8fc25")));
    assert_eq!(config.redis.password.as_ref().map(|password| password.expose()), Some("s3cret"));
    assert_eq!(config.redis.key_prefix, "app:");
    assert_eq!(config.worker_pool.max_threads, 3);
    assert_eq!(config.abi_fallback, AbiFallback::Fail);
    assert!(!config.xtrim.enabled && config.irreversible_only);
    assert_eq!(config.reconnect.max_attempts, Some(7));
    assert_eq!(config.reconnect.backoff, [Duration::from_millis(500), Duration::from_secs(10)]);
    assert_eq!((config.logger.level, config.logger.pretty), (LevelFilter::ERROR, true));
    assert_eq!(parse(LEAST).expect("valid").warnings(), Vec::<String>::new());
}

#[test]
fn the_other_json_style_is_asked_for_in_three_ways() {
    for more in ["json: wharfkit", "deserializer: wharfkit", "compat: parser2"] {
        let config = with(more).expect("valid");
        assert_eq!((config.json, config.deserializer), (Json::Wharfkit, Deserializer::Compiled), "{more}");
        assert_eq!(parse(&config.effective()), Ok(config));
    }
    for (more, by) in [
        ("deserializer: abieos\njson: wharfkit", "`json: wharfkit` asks for the other style"),
        ("deserializer: abieos\ncompat: parser2", "`compat: parser2` asks for the other style"),
    ] {
        assert_refused(more, &["line 3: deserializer: `abieos` writes `json: abieos` only", by]);
    }
    // A key given in full goes before what another implies.
    let config = with("compat: parser2\njson: abieos").expect("valid");
    assert!(config.publish.notifications && config.stream_ids == StreamIds::Auto);
    let config = with("compat: parser2\njson: abieos\nstreamIds: block\npublish: {notifications: false}");
    let config = config.expect("valid");
    assert!(!config.publish.notifications && config.stream_ids == StreamIds::Block);
    let config = with("deserializer: wharfkit\njson: abieos").expect("valid");
    assert_eq!((config.json, config.deserializer), (Json::Abieos, Deserializer::Compiled));
}

#[test]
fn filters_are_read() {
    let config = with(
        "
filters:
  include:
    - {kind: action, account: 111111111111, name: '*'}
    - {kind: action, receiver: 1e5}
    - {kind: delta, code: eosio.token, table: accounts, scope: ''}
    - {kind: native-delta, table: permission}
    - {kind: block}
    - {kind: fork}
  exclude:
    - kind: native-delta
",
    )
    .expect("valid");
    let name = Name::literal;
    let wanted = [
        // What YAML would take for numbers are names here.
        Rule::Action(ActionRule { account: Some(name("111111111111")), ..ActionRule::default() }),
        Rule::Action(ActionRule { receiver: Some(name("1e5")), ..ActionRule::default() }),
        Rule::Delta(DeltaRule {
            code: Some(name("eosio.token")),
            table: Some(name("accounts")),
            scope: Some(Name(0)),
        }),
        Rule::NativeDelta(NativeDeltaRule { table: Some("permission".into()) }),
        Rule::Block,
        Rule::Fork,
        Rule::NativeDelta(NativeDeltaRule { table: None }),
    ];
    assert_eq!(config.filters.rules().cloned().collect::<Vec<_>>(), wanted);
    assert!(config.filters.no_native_deltas() && config.filters.blocks());
}

#[test]
fn filters_that_can_match_nothing_are_warned_of() {
    let config =
        with("publish: {blocks: true}\nfilters: {include: [{kind: native-delta, table: permisson}]}");
    let warnings = config.expect("valid").warnings().join("\n");
    assert!(warnings.contains("publish.blocks has no effect"), "{warnings}");
    assert!(warnings.contains("`permisson`") && warnings.contains("`permission`?"), "{warnings}");
}

#[test]
fn what_a_variable_holds_is_only_ever_a_value() {
    let config =
        with("xtrim: {maxEntries: '${THREADS}'}\nworkerPool: {maxThreads: '${N:-2}'}").expect("valid");
    assert_eq!((config.xtrim.max_entries, config.worker_pool.max_threads), (Some(3), 2));
    let error = with("json: ${TRICKY}").expect_err("no key comes out of it");
    assert!(error.contains("json: the value from the environment is not one of"), "{error}");
    assert!(!error.contains("elsewhere"), "{error}");
    // Empty is the same as not given.
    let config = with("chain: {url: '${EMPTY}', id: '${NONE:-}'}").expect("valid");
    assert_eq!((config.chain.url, config.chain.id), (None, None));
    assert_refused("json: ${NONE}", &["line 3: json: the environment variable NONE is not set"]);
    assert_refused("chain:\n  url: http://${NONE}", &["line 4: chain.url: the environment variable NONE"]);
    assert_refused("filters: {include: [{kind: '${NONE}'}]}", &["filters.include[0].kind: the environment"]);
    let config = parse("ship: {url: ws://n}\nredis:\n  url: redis://h\n  namespace: $${a}\n").expect("valid");
    assert_eq!(config.redis.namespace, "${a}");
}

#[test]
fn passwords_come_from_the_environment_only_and_are_never_shown() {
    for yaml in [
        "ship: {url: ws://n}\nredis:\n  url: redis://h\n  password: s3cret\n",
        "ship: {url: ws://n}\nredis:\n  url: redis://h\n  password: ${NONE:-s3cret}\n",
        "ship: {url: ws://n}\nredis:\n  url: redis://:s3cret@h\n",
        "ship: {url: 'wss://u:s3cret@n'}\nredis:\n  url: redis://h\n",
        "ship: {url: ws://n}\nredis: {url: redis://h}\nchain: {url: 'https://u:s3cret@n'}\n",
    ] {
        let error = parse(yaml).expect_err("a password in the file");
        assert!(error.contains("${") && error.contains("environment variable"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    let config = parse(
        "ship: {url: ['wss://u:${REDIS_PASSWORD}@a', ws://b]}
redis:
  url: redis://:${REDIS_PASSWORD}@h
  password: ${REDIS_PASSWORD}
",
    )
    .expect("valid");
    for text in [format!("{config:?}"), format!("{config:#?}"), config.effective()] {
        assert!(!text.contains("s3cret"), "{text}");
        assert!(text.contains("redis://:***@h") && text.contains("wss://u:***@a"), "{text}");
    }
}

#[test]
fn the_effective_configuration_reads_back_as_the_same() {
    for more in [
        "",
        "startBlock: first\nstopBlock: 9\nconfirmations: 3\nxtrim: {keepBlocks: 0, maxEntries: 0}",
        "startBlock: 77\nlogger: {level: silent}\nreconnect: {backoffSeconds: [0.25, 3]}",
        "filters: {include: [{kind: delta, scope: ''}, {kind: action, account: '1e5'}, {kind: fork}]}",
        "filters: {exclude: [{kind: block}, {kind: native-delta}]}",
        "compat: parser2",
        "compat: parser2\njson: abieos\npublish: {blocks: true, codeBytes: true, noAbiDeadLetters: true}",
    ] {
        let config = with(more).expect("valid");
        let effective = config.effective();
        assert_eq!(parse(&effective).as_ref(), Ok(&config), "{effective}");
    }
    let config = parse(&TYPESCRIPT.replace("${REDIS_PASSWORD}", "''")).expect("valid");
    assert_eq!(parse(&config.effective()), Ok(config));
}

#[test]
fn every_key_is_read_printed_and_documented() {
    let config = parse(LEAST).expect("valid");
    let mut printed = Vec::new();
    flatten("", &serde_json::to_value(&config).expect("it can be written"), &mut printed);
    printed.sort();
    let mut keys: Vec<String> = KEYS.iter().map(|key| key.to_string()).collect();
    keys.sort();
    assert_eq!(printed, keys);

    let docs = include_str!("../../docs/configuration.md");
    for key in KEYS {
        assert!(docs.contains(&format!("| `{key}` |")), "docs/configuration.md does not explain `{key}`");
        // A map with a list in it fits nowhere, so whoever reads the key must complain.
        let yaml = match key.split_once('.') {
            Some((section, key)) => format!("{section}: {{{key}: {{a: [b]}}}}"),
            None => format!("{key}: {{a: [b]}}"),
        };
        let error = parse(&yaml).expect_err(key);
        assert!(error.contains(&format!("line 1: {key}: ")), "nobody reads {key}:\n{error}");
    }
}

fn flatten(prefix: &str, value: &serde_json::Value, keys: &mut Vec<String>) {
    let serde_json::Value::Object(entries) = value else {
        keys.push(prefix.to_owned());
        return;
    };
    for (key, value) in entries {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        flatten(&path, value, keys);
    }
}

#[test]
fn abis_are_read_from_files_and_must_not_overlap() {
    let folder = tempfile::tempdir().expect("a folder");
    // An ABI without types: its version and nine empty lists.
    let abi = b"\x0eeosio::abi/1.2\0\0\0\0\0\0\0\0\0";
    std::fs::write(folder.path().join("token.abi"), abi).expect("written");
    std::fs::write(folder.path().join("token.hex"), parser::hex::lower(abi)).expect("written");
    std::fs::write(folder.path().join("token.json"), r#"{"version":"eosio::abi/1.2"}"#).expect("written");
    let parse = |overrides: &str| {
        let yaml = format!("{LEAST}abi:\n  overrides:\n{overrides}");
        Config::parse(&yaml, folder.path(), &environment).map_err(|error| error.to_string())
    };
    let config = parse(
        "  - {contract: eosio.token, fromBlock: 10, toBlock: 19, file: token.abi}
  - {contract: eosio.token, fromBlock: 20, file: token.hex}
  - {contract: other, file: token.hex}
",
    )
    .expect("valid");
    let overrides = config.abi.overrides;
    let ranges: Vec<_> = overrides.iter().map(|o| (o.contract, o.from_block, o.to_block)).collect();
    let (token, other) = (Name::literal("eosio.token"), Name::literal("other"));
    assert_eq!(ranges, [(token, 10, Some(19)), (token, 20, None), (other, 0, None)]);
    assert!(overrides.iter().all(|o| o.abi == abi));
    assert!(overrides[0].holds_in(19) && !overrides[0].holds_in(20));

    let twice =
        "  - {contract: a, fromBlock: 5, file: token.abi}\n  - {contract: a, toBlock: 5, file: token.abi}\n";
    let error = parse(twice).expect_err("block 5 has two");
    assert!(error.contains("line 6: abi.overrides[1]: another ABI of a"), "{error}");
    let error = parse("  - {contract: a, fromBlock: 5, toBlock: 4, file: token.json}\n").expect_err("wrong");
    assert!(error.contains("toBlock is below fromBlock"), "{error}");
    assert!(error.contains("token.json is an ABI in JSON: a packed ABI"), "{error}");
}

#[test]
fn the_example_configurations_are_valid() {
    let needed = |name: &str| match name {
        "SHIP_URL" => Ok("ws://node:8080".to_owned()),
        "CHAIN_ID" => Ok("ab".repeat(32)),
        "REDIS_PASSWORD" => Ok("s3cret".to_owned()),
        _ => Err(VarError::NotPresent),
    };
    let mut files = 0;
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("config")).expect("a folder") {
        let file = entry.expect("a file").path();
        let example = std::fs::read_to_string(&file).expect("text");
        let config = Config::parse(&example, Path::new("config"), &needed);
        let config = config.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(config.warnings(), Vec::<String>::new(), "{}", file.display());
        files += 1;
    }
    assert!(files > 3, "{files}");
    // This one needs nothing.
    let example = include_str!("../../config/parser.yaml");
    Config::parse(example, Path::new("config"), &|_| Err(VarError::NotPresent)).expect("valid as it is");
}

#[test]
fn the_examples_in_the_documentation_are_valid() {
    let docs = include_str!("../../docs/configuration.md");
    let examples: Vec<&str> =
        docs.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let result = if example.contains("ship:") { parse(example) } else { with(example) };
        result.unwrap_or_else(|error| panic!("{example}\n{error}"));
    }
}
