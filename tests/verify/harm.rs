//! What is done to a stream, and how it is named.

use crate::published::{Entry, Published, place, renumber};

#[tokio::test]
async fn what_is_done_to_a_stream_is_named() {
    let published = Published::demo("").await;
    let whole = published.entries().await;
    published.good(&[]).await;
    let in_block = |num: u64| move |entry: &Entry| entry.block() == num;
    // The first fork of this recording is at block 120: 121 and 122 come again behind it.
    let fork = place(&whole, |entry| entry.is("fork"));
    assert_eq!(
        (whole[fork].event()["forked_from_block"].as_u64(), whole[fork + 1].block()),
        (Some(120), 121)
    );
    type Harm = Box<dyn Fn(&mut Vec<Entry>)>;
    let cases: Vec<(&str, &[&str], Harm)> = vec![
        (
            "an entry removed",
            &["missing_entry"],
            Box::new(move |all| drop(all.remove(place(all, in_block(50)) + 1))),
        ),
        ("a block removed", &["missing_block"], Box::new(move |all| all.retain(|entry| entry.block() != 50))),
        (
            "a row doubled",
            &["repeated_event"],
            Box::new(|all| {
                let row = place(all, |entry| entry.is("native-delta") && entry.block() == 50);
                all.insert(row, all[row].clone());
                renumber(all);
            }),
        ),
        (
            "an action doubled",
            &["repeated_event"],
            Box::new(|all| {
                let action = place(all, |entry| entry.is("action") && entry.block() == 50);
                all.insert(action, all[action].clone());
                renumber(all);
            }),
        ),
        (
            "a block doubled",
            &["repeated_block"],
            Box::new(move |all| {
                let block: Vec<Entry> = all.iter().filter(|entry| entry.block() == 50).cloned().collect();
                let before = place(all, in_block(52));
                all.splice(before..before, block);
                renumber(all);
            }),
        ),
        (
            "two actions swapped",
            &["wrong_order"],
            Box::new(|all| {
                let two = |pair: &[Entry]| pair.iter().all(|entry| entry.is("action") && entry.block() > 30);
                let pair = all.windows(2).position(two).expect("two actions");
                all.swap(pair, pair + 1);
                renumber(all);
            }),
        ),
        (
            "a row before an action",
            &["wrong_order"],
            Box::new(|all| {
                let two = |pair: &[Entry]| pair[0].is("action") && pair[1].is("delta");
                let pair = all.windows(2).position(two).expect("an action and a row");
                all.swap(pair, pair + 1);
                renumber(all);
            }),
        ),
        (
            "the fork event removed",
            &["wrong_branch"],
            Box::new(move |all| {
                all.remove(fork);
                renumber(all);
            }),
        ),
        (
            "the old branch left behind the fork event",
            &["wrong_branch"],
            Box::new(move |all| {
                let old: Vec<Entry> =
                    all[..fork].iter().filter(|entry| [121, 122].contains(&entry.block())).cloned().collect();
                let end = fork + place(&all[fork..], in_block(123));
                all.splice(fork + 1..end, old);
                renumber(all);
            }),
        ),
        (
            "a fork event that undoes another block",
            &["wrong_fork"],
            Box::new(move |all| {
                let removed = all[fork].event()["removed"][0].as_str().expect("an id").to_owned();
                let other = removed.replace('a', "b");
                let at = all[fork].fields[0].1.rfind(&removed).expect("an id");
                all[fork].fields[0].1.replace_range(at..at + 64, &other);
            }),
        ),
        (
            "a fork event that names another head",
            &["wrong_fork"],
            Box::new(move |all| {
                all[fork].replace("\"old_head_block_num\":122", "\"old_head_block_num\":121")
            }),
        ),
        (
            "an event with the id of another block",
            &["wrong_event_id"],
            Box::new(move |all| all[fork - 1].replace("4335:n:122:", "4335:n:121:")),
        ),
        (
            "an event of another chain",
            &["wrong_chain"],
            Box::new(move |all| {
                all[fork - 1].replace("\"chain_id\":\"20c1", "\"chain_id\":\"20c2");
            }),
        ),
        ("a foreign entry", &["foreign_entry"], Box::new(|all| all[9].fields[0].0 = "other".to_owned())),
        ("an event cut short", &["foreign_entry"], Box::new(|all| all[9].fields[0].1.truncate(200))),
        (
            "entries under the wrong number",
            &["wrong_entry_id"],
            Box::new(move |all| {
                let last = all.len() - 1;
                all[last].id = format!("{}-1", all[last].block() + 7);
            }),
        ),
        (
            "the last block removed",
            &["wrong_end"],
            Box::new(|all| {
                let last = all.last().expect("an entry").block();
                while all.last().is_some_and(|entry| entry.block() == last) {
                    all.pop();
                }
            }),
        ),
    ];
    for (what, kinds, harm) in cases {
        let mut entries = whole.clone();
        harm(&mut entries);
        println!("{what}");
        published.put(&entries).await;
        let report = published.wrong(kinds).await;
        // The fork event that undoes another block lacks one and has one too many.
        assert!(report["findings"].as_array().expect("a list").len() <= 2, "{what}: {report:#}");
    }
    published.put(&whole).await;
    published.good(&[]).await;
}

#[tokio::test]
async fn block_events_prove_links_and_counts() {
    let published = Published::demo("publish: {blocks: true, notifications: true}").await;
    let whole = published.entries().await;
    let at = place(&whole, |entry| entry.is("block") && entry.block() == 50);
    // The last row of a block removed, without a trace.
    let mut entries = whole.clone();
    entries.remove(at - 1);
    renumber(&mut entries);
    published.put(&entries).await;
    published.wrong(&["wrong_count"]).await;
    // The event that closes it.
    let mut entries = whole.clone();
    entries.remove(at);
    renumber(&mut entries);
    published.put(&entries).await;
    published.wrong(&["missing_entry"]).await;
    // Another block before it.
    let mut entries = whole.clone();
    let before = entries[at].event()["prev_block_id"].as_str().expect("an id").to_owned();
    entries[at].replace(
        &format!("\"prev_block_id\":\"{before}"),
        &format!("\"prev_block_id\":\"{}", "0".repeat(64)),
    );
    published.put(&entries).await;
    published.wrong(&["wrong_link"]).await;
    // An action, and it is not counted.
    let mut entries = whole.clone();
    let action = place(&entries, |entry| entry.is("action") && entry.block() == 50);
    entries.remove(action);
    let at = at - 1;
    let count = entries[at].event()["actions"].as_u64().expect("a number");
    entries[at].replace(&format!("\"actions\":{count}"), &format!("\"actions\":{}", count - 1));
    renumber(&mut entries);
    published.put(&entries).await;
    published.wrong(&["missing_action"]).await;
}
