//! Compared with a node.

use parser::capture::serve::ServeOptions;

use crate::published::{Published, bundled, place, verify};
use crate::support::captures;

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_compared_with_the_nodes() {
    let published = Published::demo("").await;
    let whole = published.entries().await;
    // Blocks that can still be undone are not compared, nor those that were undone.
    let capture = bundled();
    let last = capture.frames.last().expect("a frame");
    let irreversible = captures::result(last, &capture.protocol).last_irreversible.num;
    let report = published.good(&["--ship"]).await;
    let (proven, unproven) = (report["proven"].to_string(), report["unproven"].to_string());
    assert!(proven.contains(&format!("{irreversible} blocks have the ids")), "{irreversible}: {proven}");
    let others = report["blocks"].as_u64().expect("a number") - u64::from(irreversible);
    assert!(unproven.contains(&format!("the other {others} blocks")), "{others}: {unproven}");
    let report = published.good(&["--ship", "--from", "40", "--to", "60"]).await;
    assert!(report["proven"].to_string().contains("21 blocks have the ids"), "{report:#}");

    // A block of another branch, which fits into the stream as well.
    let mut entries = whole.clone();
    let at = place(&entries, |entry| entry.block() == 50);
    let id = entries[at].event()["block_id"].as_str().expect("an id").to_owned();
    let other = format!("{}{}", &id[..8], id[8..].chars().rev().collect::<String>());
    for entry in entries.iter_mut().filter(|entry| entry.fields[0].1.contains(&id[..16])) {
        entry.fields[0].1 = entry.fields[0].1.replace(&id, &other).replace(&id[..16], &other[..16]);
    }
    published.put(&entries).await;
    published.good(&[]).await;
    let (status, report) = published.verify(&["--ship"]).await;
    assert_eq!((status, &report["counts"]), (1, &serde_json::json!({"not_the_nodes": 1})), "{report:#}");
    let finding = &report["findings"][0];
    assert_eq!(finding["block"], 50);
    assert_eq!(finding["message"], format!("{other} is published, the node has {id}"));
    // A fault elsewhere is none here.
    published.good(&["--ship", "--from", "51"]).await;

    // What an event holds is not compared, and that is said.
    let mut entries = whole.clone();
    let at = place(&entries, |entry| entry.is("action") && entry.block() == 50);
    entries[at].replace("\"name\":\"onblock\"", "\"name\":\"transfer\"");
    published.put(&entries).await;
    let report = published.good(&["--ship"]).await;
    assert!(report["unproven"].to_string().contains("what the events hold"), "{report:#}");
    published.put(&whole).await;

    // A node of another chain, and none at all.
    let stranger = captures::serve(&captures::plain(3), ServeOptions::default()).await;
    let yaml = published.yaml.replace(published.node.url(), stranger.url());
    let (status, _, said) = verify(&published.folder, &yaml, &["--ship"]).await;
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("the node is on chain"), "{said}");
    let Published { node, yaml, folder, redis: _redis, .. } = published;
    drop(node);
    let (status, _, said) =
        verify(&folder, &(yaml + "reconnect: {backoffSeconds: [0.01]}\n"), &["--ship"]).await;
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("gave up after 3 attempts"), "{said}");
}
