//! `docs/commands.md` shows what the commands print: all calls on that page are made, in order, over a recording.
//!
//! Where a page is out of date, `PARSER_WRITE_PAGE=1` writes it anew. Times, addresses, durations and sizes in memory differ from
//! run to run and are not compared. A line `...` stands for all further lines.

use std::path::Path;

use serde_json::json;

use crate::made;
use crate::world::World;

const REST: &str = "...";

/// What the page's calls find.
async fn world() -> (World, parser::capture::serve::Server) {
    let (world, node) = World::mixed("").await;
    let events = &world.keys.events;
    let _: String = world.ask(&["XGROUP", "CREATE", events, "search", "90-0"]).await;
    let _: String = world.ask(&["XGROUP", "CREATE", events, "web", "0"]).await;
    let _: ::redis::Value =
        world.ask(&["XREADGROUP", "GROUP", "web", "web-1", "COUNT", "900", "STREAMS", events, ">"]).await;
    let web = json!({"subId": "web", "filters": [{"kind": "action", "account": "eosio.token", "name": "transfer"}],
        "startFrom": "last_known", "registeredAt": "2024-01-01T00:00:00.000Z"});
    let old =
        json!({"subId": "old", "filters": [], "startFrom": 1, "registeredAt": "2023-01-01T00:00:00.000Z"});
    let _: u64 = world.ask(&["HSET", "parser2:subs", "web", &web.to_string(), "old", &old.to_string()]).await;
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mixed-100.shipcap.zst");
    std::fs::copy(recording, world.path("mixed-100.shipcap.zst")).expect("copied");
    let fixed = json!({"version": "eosio::abi/1.1",
        "structs": [{"name": "put", "base": "", "fields": [{"name": "owner", "type": "name"}, {"name": "key", "type": "uint64"}]}],
        "actions": [{"name": "put", "type": "put", "ricardian_contract": ""}]});
    world.write("fixed.json", fixed.to_string());
    std::fs::create_dir(world.path("abis")).expect("a folder");
    world.write("abis/newcontract1.abi", made::abi(&[("owner", "name")]));
    world.write("abis/newcontract2.json", fixed.to_string());
    (world, node)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_the_commands_print() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let (world, _node) = world().await;
    let (mut written, mut differing, mut calls) = (String::new(), Vec::new(), 0);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        written += &format!("{line}\n");
        let Some(call) = line.strip_prefix("$ parser ") else { continue };
        calls += 1;
        let mut shown = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ") && *line != "```") {
            shown.push(line);
        }
        let words: Vec<&str> = call.split(' ').collect();
        let called = world.call_with(&words, "").await;
        let printed = called.out + &called.err;
        let mut printed: Vec<&str> = printed.lines().collect();
        if let Some(rest) = shown.iter().position(|line| *line == REST) {
            printed.truncate(rest);
            printed.push(REST);
        }
        let masked = |lines: &[&str]| lines.iter().map(|line| masked(line)).collect::<Vec<_>>();
        if masked(&printed) != masked(&shown) {
            differing.push(format!("$ parser {call}\n{}\n", printed.join("\n")));
            shown = printed;
        }
        written.extend(shown.iter().map(|line| format!("{line}\n")));
    }
    assert!(calls > 10, "the page's calls are not found");
    if std::env::var_os("PARSER_WRITE_PAGE").is_some() {
        std::fs::write(&page, written).expect("written");
    } else {
        assert!(
            differing.is_empty(),
            "docs/commands.md is out of date (PARSER_WRITE_PAGE=1 mends it):\n{}",
            differing.join("\n")
        );
    }
}

/// A line without what differs from run to run.
fn masked(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let in_memory = line.starts_with("stream ") || line.starts_with("ABI history ");
    let mut out: Vec<String> = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let next = words.get(place + 1).map(|word| word.trim_end_matches([',', ';', '.']));
        let is_number = word.parse::<f64>().is_ok();
        let time = word.contains('T') && word.trim_end_matches(',').trim_matches('"').ends_with('Z');
        out.push(match next {
            _ if time => "TIME".into(),
            _ if word.contains("127.0.0.1:") => "ADDRESS".into(),
            Some("s" | "min" | "h" | "d") if is_number => "DURATION".into(),
            Some("bytes" | "kB" | "MB") if is_number && in_memory => "SIZE".into(),
            _ => (*word).to_owned(),
        });
    }
    // A duration has one unit or two.
    out.join(" ")
        .replace("DURATION min DURATION s", "DURATION")
        .replace("DURATION h DURATION min", "DURATION")
        .replace("DURATION d DURATION h", "DURATION")
        .replace("DURATION s", "DURATION")
        .replace("DURATION min", "DURATION")
        .replace("DURATION h", "DURATION")
        .replace("DURATION d", "DURATION")
}
