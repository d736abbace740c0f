//! What is refused, and with which words.

use std::path::Path;

use parser::config::Config;

use crate::{parse, with};

pub fn assert_refused(more: &str, parts: &[&str]) {
    let error = with(more).expect_err(more);
    for part in parts {
        assert!(error.contains(part), "{more}\n is refused without `{part}`:\n{error}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_one_and_its_line() {
    for (more, parts) in [
        ("xtrim:\n  intervallMs: 5", &["line 4: unknown key `xtrim.intervallMs`", "`xtrim.intervalMs`?"][..]),
        ("xtrim: {when_full: trim}", &["`xtrim.when_full`", "`xtrim.whenFull`?"]),
        ("startblock: 5", &["line 3: unknown key `startblock`", "`startBlock`?"]),
        ("keyPrefix: a", &["unknown key `keyPrefix`", "`redis.keyPrefix`?"]),
        ("filter: {include: []}", &["unknown key `filter`", "`filters`?"]),
        ("publish: {block: true}", &["`publish.block`", "`publish.blocks`?"]),
        ("qqqqqqqq: 1", &["unknown key `qqqqqqqq`", "docs/configuration.md"]),
        (
            "filters: {include: [{kind: action, acount: a}]}",
            &["`filters.include[0].acount`", "`filters.include[0].account`?"],
        ),
        (
            "filters: {include: [{kind: native-delta, scope: a}]}",
            &["`filters.include[0].scope`", "keys here are kind, table"],
        ),
        ("abi: {overrides: [{contract: a, file: x, from: 1}]}", &["`abi.overrides[0].from`", "fromBlock"]),
    ] {
        assert_refused(more, parts);
    }
}

#[test]
fn everything_wrong_is_told_at_once_in_the_order_of_the_file() {
    let error = parse(
        "ship:
  url: http://x
redis:
  url: 'redis://:pw@h'
xtrim: 5
logger: {level: loud}
stopBlock: -1
${X}: 1
json: ${MISSING}
",
    )
    .expect_err("nothing of it is right");
    let lines: Vec<_> = error.lines().map(|line| line.trim().split(':').next()).collect();
    assert_eq!(
        lines,
        [2, 4, 5, 6, 7, 8, 9].map(|n| format!("line {n}")).each_ref().map(|l| Some(l.as_str()))
    );
    assert!(!error.contains("pw"), "{error}");
    assert_eq!(parse("").expect_err("empty"), "ship.url: is missing\n  redis.url: is missing");
    // What is there and wrong is not missing as well.
    let error = parse("ship: {url: '${MISSING}'}\nredis: {url: 'redis://h'}").expect_err("no such variable");
    assert!(error.contains("ship.url: the environment variable MISSING is not set"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn values_that_do_not_fit_are_refused() {
    for (more, parts) in [
        ("confirmations: many", &["line 3: confirmations: `many` is not a whole number from 0 to"][..]),
        ("confirmations: 1001", &["line 3: confirmations: `1001` is not a whole number from 0 to 1000"]),
        (
            "stopBlock: 9\nstartBlock: 10",
            &["line 4: startBlock: reading would begin with block 10", "above the last block to publish (9)"],
        ),
        ("maxMessagesInFlight: 0", &["maxMessagesInFlight: `0` is not a whole number from 1"]),
        ("maxMessageBytes: 1000", &["is not a whole number from 1048576"]),
        ("irreversibleOnly: yes", &["`yes` is not one of `true`, `false`"]),
        ("startBlock: 0", &["`0` is neither a block number from 1 nor `first`"]),
        ("streamIds: number", &["`number` is not one of `block`, `auto`"]),
        ("chain: {id: abc}", &["chain.id: `abc` is no id: 64 hexadecimal digits"]),
        ("chain: {url: 'ws://x'}", &["must begin with `http://` or `https://`"]),
        ("reconnect: {backoffSeconds: []}", &["at least one number of seconds"]),
        ("reconnect: {backoffSeconds: [-1]}", &["backoffSeconds[0]: `-1` is not a number of seconds"]),
        ("logger: [1]", &["logger: keys are expected here"]),
        ("startBlock: [1]", &["a single value is expected here"]),
        ("filters: {include: {kind: action}}", &["filters.include: a list is expected"]),
        ("filters: {include: [action]}", &["a filter is expected here"]),
        ("filters: {include: [{account: a}]}", &["filters.include[0].kind: is missing"]),
        ("filters: {include: [{kind: actions}]}", &["`actions` is not one of `action`, `delta`"]),
        ("abi: {overrides: [{contract: a, file: no/such.abi}]}", &["no/such.abi: No such file"]),
        ("metrics: {port: 70000}", &["`70000` is not a whole number from 1 to 65535"]),
        ("json: *x", &["not valid YAML", "in quotes"]),
        ("\tjson: abieos", &["not valid YAML"]),
    ] {
        assert_refused(more, parts);
    }
    let config = with("startBlock: 9\nstopBlock: 9\nconfirmations: 1000").expect("one block, held back long");
    assert_eq!(config.confirmations, 1000);
    let error = parse("ship: {url: []}\nredis: {url: 'redis://h', namespace: 'a:b'}").expect_err("wrong");
    assert!(error.contains("ship.url: at least one URL"), "{error}");
    assert!(error.contains("redis.namespace: must not"), "{error}");
}

#[test]
fn a_node_named_twice_is_refused_without_its_key() {
    let urls = |urls: &str| parse(&format!("ship:\n  url:\n{urls}redis: {{url: redis://h}}\n"));
    for (yaml, line) in [
        (
            "  - ws://a:8080\n  - ws://b\n  - ws://a:8080\n",
            "line 5: ship.url[2]: `ws://a:8080` is given twice",
        ),
        ("  - ws://a\n  - ws://A:80/\n", "line 4: ship.url[1]: `ws://A:80/` is given twice"),
        ("  - ws+unix:///run/a\n  - ws+unix:///run/a\n", "line 4: ship.url[1]: `ws+unix:///run/a` is given"),
        (
            "  - wss://a?key=${REDIS_PASSWORD}\n  - wss://a?key=${REDIS_PASSWORD}\n",
            "line 4: ship.url[1]: `wss://a?key=***` is given twice",
        ),
    ] {
        let error = urls(yaml).expect_err(yaml);
        assert!(error.contains(line), "{yaml}: {error}");
    }
    // Other keys, paths or schemes are other nodes.
    let config =
        urls("  - wss://a?key=${REDIS_PASSWORD}\n  - wss://a?key=${NODE}\n  - ws://a\n  - ws://a/b\n");
    assert_eq!(config.expect("valid").ship.url.len(), 4);
}

#[test]
fn a_name_with_bad_characters_is_told_with_key_name_and_character() {
    for (more, parts) in [
        (
            "filters:\n  exclude:\n    - kind: action\n      account: Alice",
            &["line 6: filters.exclude[0].account: `Alice`", "character 1 (`A`)"][..],
        ),
        (
            "filters: {include: [{kind: delta, scope: bob6}]}",
            &["include[0].scope: `bob6`", "character 4 (`6`)"],
        ),
        ("filters: {include: [{kind: delta, table: aaaaaaaaaaaaaa}]}", &["more than 13 characters"]),
        ("filters: {include: [{kind: delta, scope: }]}", &["has no value", "write '' for the empty name"]),
        ("filters: {include: [{kind: native-delta, table: contract_row}]}", &["of the kind `delta`"]),
        ("abi: {overrides: [{contract: A, file: x}]}", &["abi.overrides[0].contract: `A`"]),
        ("filters:\n  include:\n    - kind: action\n      account: *", &["line 6", "in quotes: '*'"]),
    ] {
        assert_refused(more, parts);
    }
}

#[test]
fn yaml_that_could_do_harm_is_refused() {
    for (yaml, part) in [
        ("a: &a [1, *a]\n", "inside the value that it names"),
        ("ship: !include x\n", "the YAML tag `!include`"),
        ("a: 1\n---\nb: 1\n", "a second YAML document"),
        ("json: abieos\njson: abieos\n", "line 2: json is given twice, first in line 1"),
        ("[a]: 1\n", "a key must be a plain text"),
        ("a\n", "keys are expected here"),
    ] {
        let error = parse(yaml).expect_err(yaml);
        assert!(error.contains(part), "{yaml}: {error}");
    }
    for (levels, part) in [(40, "nested more than 32 levels"), (100_000, "not valid YAML")] {
        let error = parse(&format!("a: {}{}", "[".repeat(levels), "]".repeat(levels))).expect_err("too deep");
        assert!(error.contains(part), "{error}");
    }
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..9 {
        let ten = vec![format!("*a{}", i - 1); 10].join(",");
        bomb.push_str(&format!("a{i}: &a{i} [{ten}]\n"));
    }
    assert!(parse(&bomb).is_err_and(|error| error.contains("more than 100000 values")));
    // An ordinary alias is fine.
    let config = with("reconnect: {backoffSeconds: [&n 5, *n]}").expect("valid");
    assert_eq!(config.reconnect.backoff.len(), 2);
}

#[test]
fn files_are_named_in_their_errors() {
    let error = Config::load(Path::new("no/such/parser.yaml")).expect_err("no file").to_string();
    assert!(error.starts_with("no/such/parser.yaml: No such file"), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("parser.yaml");
    std::fs::write(&file, "ship: 1").expect("written");
    let error = Config::load(&file).expect_err("wrong").to_string();
    let start = format!("{}: the configuration cannot be used\n  ", file.display());
    assert!(error.starts_with(&start), "{error}");
    std::fs::write(&file, b"ship: \xff").expect("written");
    assert!(Config::load(&file).is_err_and(|e| e.to_string().contains("not valid UTF-8")));
}
