//! Forks: what the events say is undone, checked against the links of the frames themselves.

mod captures;
#[path = "support/lines.rs"]
mod lines;
#[path = "support/made.rs"]
mod made;

use std::collections::{BTreeMap, HashSet};

use captures::recorded;
use lines::Lines;
use made::{block, position};
use parser::block::{Checksum, Position};
use parser::capture::file::Capture;
use parser::event::Style;
use parser::pipeline::IntakeError;
use parser::plan::Selection;
use parser::ship::message::BlockResult;
use serde_json::{Value, json};

/// The bundled recording, and the whole one where it is.
fn forks() -> Vec<Capture> {
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fork-240.shipcap.zst");
    let mut all = vec![Capture::load(bundled.as_ref()).expect("a capture")];
    all.extend(recorded("fork"));
    all
}

fn links(capture: &Capture) -> Vec<(Position, Position)> {
    let result = |frame| BlockResult::decode(frame, &capture.protocol).expect("a block");
    let link =
        |result: BlockResult| (result.this_block.expect("a block"), result.prev_block.unwrap_or_default());
    capture.frames.iter().map(|frame| link(result(frame))).collect()
}

/// The blocks from the newest one down, by their parents' ids.
fn line_of(head: Position, parents: &BTreeMap<Checksum, Position>) -> Vec<Position> {
    let mut line = vec![head];
    while let Some(parent) = line.last().and_then(|block| parents.get(&block.id)).filter(|p| p.num > 0) {
        line.push(*parent);
    }
    line
}

/// Takes the events of undone blocks away, as a consumer does.
fn replay(events: &[Value]) -> Vec<Value> {
    let mut standing: Vec<Value> = Vec::new();
    for event in events {
        if event["kind"] == "fork" {
            let common = event["forked_from_block"].as_u64().expect("a number");
            standing.retain(|event| event["block_num"].as_u64().expect("a number") <= common);
        } else {
            standing.push(event.clone());
        }
    }
    standing
}

async fn lines_of(capture: &Capture, selection: Selection) -> Lines {
    let chain_id = capture.status.chain_id.expect("a chain id");
    Lines::new(capture.protocol.clone(), chain_id, selection, Style::default())
}

fn with_blocks() -> Selection {
    Selection { blocks: true, ..Selection::default() }
}

#[tokio::test]
async fn every_fork_names_the_common_block_and_what_is_removed() {
    for capture in forks() {
        let links = links(&capture);
        let parents: BTreeMap<Checksum, Position> =
            links.iter().map(|(this, parent)| (this.id, *parent)).collect();
        let mut lines = lines_of(&capture, with_blocks()).await;
        let mut found = 0;
        for (place, frame) in capture.frames.iter().enumerate() {
            let events = lines.take(frame).await.expect("taken").expect("no block is repeated");
            let this = links[place].0;
            let before = place.checked_sub(1).map(|before| links[before].0);
            let Some(old) = before.filter(|before| links[place].1.id != before.id) else {
                assert!(events.iter().all(|event| event["kind"] != "fork"));
                continue;
            };
            found += 1;
            let new_line: HashSet<Position> = line_of(this, &parents).into_iter().collect();
            let removed: Vec<Position> =
                line_of(old, &parents).into_iter().take_while(|block| !new_line.contains(block)).collect();
            let common = removed.last().expect("a removed block").num - 1;
            let ids: Vec<String> = removed.iter().map(|block| block.id.to_string()).collect();
            let chain = capture.status.chain_id.expect("a chain id").to_string();
            let expected = json!({
                "kind": "fork",
                "event_id": format!("{chain}:f:{common}:{}", &this.id.to_string()[..16]),
                "chain_id": chain,
                "forked_from_block": common,
                "new_head_block_id": this.id.to_string(),
                "old_head_block_num": old.num,
                "old_head_block_id": old.id.to_string(),
                "removed": ids,
            });
            assert_eq!(events[0], expected);
            assert!(events[1..].iter().all(|event| event["kind"] != "fork"));
        }
        assert!(found >= 3, "{found}");
    }
}

#[tokio::test]
async fn undoing_leaves_the_final_chain_and_nothing_else() {
    for capture in forks() {
        let links = links(&capture);
        let parents: BTreeMap<Checksum, Position> =
            links.iter().map(|(this, parent)| (this.id, *parent)).collect();
        let last = links.last().expect("a block").0;
        let mut standing = line_of(last, &parents);
        standing.reverse();

        let events = lines_of(&capture, with_blocks()).await.all(&capture.frames).await;
        // Only the frames of the final chain, as if there had never been another.
        let on_it: HashSet<Position> = standing.iter().copied().collect();
        let mut frames = capture.frames.clone();
        let mut place = 0;
        frames.retain(|_| {
            place += 1;
            on_it.contains(&links[place - 1].0)
        });
        assert!(frames.len() < capture.frames.len());
        let alone = lines_of(&capture, with_blocks()).await.all(&frames).await;
        let replayed = replay(&events);
        assert_eq!(replayed.len(), alone.len());
        assert!(replayed == alone);

        let closed = replayed.iter().filter(|event| event["kind"] == "block");
        let closed: Vec<_> = closed.map(|event| event["block_id"].clone()).collect();
        assert_eq!(closed, standing.iter().map(|block| json!(block.id.to_string())).collect::<Vec<_>>());
    }
}

fn made_lines() -> Lines {
    Lines::new(made::protocol().into(), made::CHAIN, with_blocks(), Style::default())
}

#[tokio::test]
async fn a_removed_block_that_comes_back_has_the_same_event_ids() {
    let protocol = made::protocol();
    let b12 = block(12, 0).acts(&[made::go("game", 120, 0, &[1])]).row("game", 7, &[2]);
    let capture = [
        block(11, 0),
        b12.clone(),
        block(12, 9).on(0).acts(&[made::go("game", 120, 0, &[3])]),
        b12,
        block(13, 0),
    ];
    let mut lines = made_lines();
    let mut all = Vec::new();
    for made in &capture {
        all.push(lines.take(&made.frame(&protocol)).await.expect("taken").expect("new"));
    }
    assert_eq!(all[1], all[3][1..], "the same events behind the fork event");
    assert_eq!(all[1].len(), 3);
    for (event, removed) in [(&all[2][0], position(12, 0)), (&all[3][0], position(12, 9))] {
        assert_eq!((&event["kind"], &event["forked_from_block"]), (&json!("fork"), &json!(11)));
        assert_eq!(event["removed"], json!([removed.id.to_string()]));
    }
}

#[tokio::test]
async fn a_block_sent_again_is_ignored() {
    let protocol = made::protocol();
    let frames: Vec<_> = (10..=13).map(|num| block(num, 0).frame(&protocol)).collect();
    let mut lines = made_lines();
    lines.all(&frames).await;
    for again in &frames {
        assert!(lines.take(again).await.expect("taken").is_none());
    }
    // A removed one is none of those.
    lines.take(&block(13, 5).on(0).frame(&protocol)).await.expect("taken").expect("a fork");
    assert_eq!(lines.take(&frames[3]).await.expect("taken").expect("a fork")[0]["kind"], "fork");
}

#[tokio::test]
async fn two_forks_at_one_height_undo_one_after_the_other() {
    let protocol = made::protocol();
    let mut lines = made_lines();
    lines.all(&(10..=14).map(|num| block(num, 0).frame(&protocol)).collect::<Vec<_>>()).await;
    let mut forks = Vec::new();
    for made in [block(13, 5).on(0), block(14, 5), block(13, 6).on(0), block(13, 7).on(0), block(14, 7)] {
        let events = lines.take(&made.frame(&protocol)).await.expect("taken").expect("new");
        forks.extend(events.into_iter().filter(|event| event["kind"] == "fork"));
    }
    let said: Vec<_> = forks.iter().map(|f| (f["forked_from_block"].clone(), f["removed"].clone())).collect();
    let ids = |blocks: &[(u32, u8)]| {
        json!(blocks.iter().map(|&(num, branch)| position(num, branch).id.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(
        said,
        [
            (json!(12), ids(&[(14, 0), (13, 0)])),
            (json!(12), ids(&[(14, 5), (13, 5)])),
            (json!(12), ids(&[(13, 6)])),
        ]
    );
    // All with event ids of their own.
    assert_eq!(forks.iter().map(|f| f["event_id"].to_string()).collect::<HashSet<_>>().len(), 3);
}

#[tokio::test]
async fn a_fork_below_the_first_block_names_the_block_before_it() {
    let protocol = made::protocol();
    let mut lines = made_lines();
    lines.all(&(10..=11).map(|num| block(num, 0).frame(&protocol)).collect::<Vec<_>>()).await;
    // What lies below was never published: nothing to say about it.
    for num in 8..=9 {
        assert!(lines.take(&block(num, 4).frame(&protocol)).await.expect("taken").is_none());
    }
    let events = lines.take(&block(10, 4).frame(&protocol)).await.expect("taken").expect("new");
    assert_eq!((&events[0]["kind"], &events[0]["forked_from_block"]), (&json!("fork"), &json!(9)));
    assert_eq!(events[0]["removed"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn irreversible_blocks_cannot_be_replaced() {
    let protocol = made::protocol();
    for (irreversible, replaced) in [(12, 11), (12, 12), (11, 11), (10, 10), (14, 10)] {
        let mut lines = made_lines();
        lines.all(&(10..=13).map(|num| block(num, 0).frame(&protocol)).collect::<Vec<_>>()).await;
        lines.take(&block(14, 0).irreversible(irreversible).frame(&protocol)).await.expect("taken");
        // A block below all that is kept tells nothing by itself; those behind it do.
        let mut error = None;
        for num in replaced..=14 {
            let next = if num == replaced { block(num, 3).on(0) } else { block(num, 3) };
            if let Err(found) = lines.take(&next.frame(&protocol)).await {
                error = Some(found);
                break;
            }
        }
        let error = error.unwrap_or_else(|| panic!("{irreversible} {replaced}: accepted"));
        let IntakeError::TooDeep { lowest, .. } = error else { panic!("{irreversible} {replaced}: {error}") };
        assert_eq!(lowest, irreversible + 1);
        // The lowest one that can be replaced.
        if irreversible < 14 {
            let next = block(irreversible + 1, 3).on(0).irreversible(irreversible);
            assert!(lines.take(&next.frame(&protocol)).await.expect("taken").is_some());
        }
    }
}

#[tokio::test]
async fn what_links_to_nothing_is_a_gap() {
    let protocol = made::protocol();
    let mut lines = made_lines();
    lines.all(&(10..=12).map(|num| block(num, 0).frame(&protocol)).collect::<Vec<_>>()).await;
    for unlinked in [block(13, 5), block(14, 0), block(12, 5), block(11, 5).on(6)] {
        let error = lines.take(&unlinked.frame(&protocol)).await.expect_err("not linked");
        let IntakeError::Gap { got, head } = error else { panic!("{error}") };
        assert_eq!((got, head), (unlinked.this, position(12, 0)));
    }
    assert!(lines.take(&block(13, 0).frame(&protocol)).await.expect("taken").is_some());
}
