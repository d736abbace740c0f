//! What a served capture sends to whom: start blocks, positions, lost branches, endless chains.

mod captures;

use captures::{made_up, options, plain, position, read, recorded, serve, standing};
use parser::block::{Checksum, Position};
use parser::capture::file::Capture;
use parser::capture::replay::Replay;
use parser::capture::serve::ServeOptions;
use parser::ship::message::{BlockResult, BlocksRequest};
use parser::ship::node::NodeOptions;

fn request(start: u32, have_positions: &[Position]) -> BlocksRequest {
    BlocksRequest {
        start,
        end: u32::MAX,
        max_messages_in_flight: 1,
        have_positions: have_positions.to_vec(),
        irreversible_only: false,
        fetch_block: true,
        fetch_traces: true,
        fetch_deltas: true,
    }
}

/// The first results for that request.
fn played(
    capture: &Capture,
    repeat_from: Option<u32>,
    request: BlocksRequest,
    most: usize,
) -> Vec<BlockResult> {
    let replay = Replay::new(capture, repeat_from).expect("playable");
    let mut player = replay.player(request);
    let frames = std::iter::from_fn(|| replay.next(&mut player)).take(most);
    frames
        .map(|frame| {
            let bytes = [frame.begin, frame.rest].concat().into();
            let result = BlockResult::decode(&bytes, &capture.protocol).expect("a block");
            assert_eq!(frame.num, result.this_block.map(|this| this.num));
            result
        })
        .collect()
}

fn blocks(results: &[BlockResult]) -> Vec<Position> {
    results.iter().filter_map(|result| result.this_block).collect()
}

/// 1 2 3 4 | 3' 4' 5' | 5'' 6''; block 1 is irreversible.
fn forked() -> Capture {
    made_up(&[(1, 0), (2, 0), (3, 0), (4, 0), (3, 1), (4, 1), (5, 1), (5, 2), (6, 2)], 1)
}

#[test]
fn starts_as_a_node_does() {
    let all = blocks(&played(&forked(), None, request(1, &[]), 99));
    let from =
        |start, positions: &[Position]| blocks(&played(&forked(), None, request(start, positions), 99));
    // Below the first block: the first one. Without positions: where the number comes first.
    assert_eq!(from(0, &[]), all);
    assert_eq!(from(3, &[]), all[2..]);
    // Behind the last block: nothing yet.
    assert_eq!(from(7, &[position(6, 2)]), []);
    // Positions at or above the start do nothing.
    assert_eq!(from(2, &[position(2, 9), position(5, 9)]), all[1..]);
    // A last position that was sent here: behind that frame, lost branches again.
    assert_eq!(from(5, &[position(2, 0), position(3, 0), position(4, 0)]), all[4..]);
    assert_eq!(from(4, &[position(2, 0), position(3, 1)]), all[5..]);
    // Ids that are not on the standing chain: from the lowest of them.
    assert_eq!(from(5, &[position(2, 0), position(3, 0), position(4, 9)]), all[4..]);
    assert_eq!(from(5, &[position(2, 9), position(3, 9), position(4, 9)]), all[1..]);
    assert_eq!(from(7, &[position(5, 2), position(6, 9)]), all[8..]);
}

#[test]
fn the_end_is_exclusive_and_parts_can_be_left_out() {
    let below_five = BlocksRequest { end: 5, ..request(1, &[]) };
    let expected: Vec<Position> =
        [(1, 0), (2, 0), (3, 0), (4, 0), (3, 1), (4, 1)].map(|(num, branch)| position(num, branch)).into();
    assert_eq!(blocks(&played(&forked(), None, below_five, 99)), expected);

    let only_traces = BlocksRequest { fetch_block: false, fetch_deltas: false, ..request(2, &[]) };
    for result in played(&forked(), None, only_traces, 99) {
        assert_eq!((result.block, result.deltas, result.traces.is_some()), (None, None, true));
    }
}

#[test]
fn only_irreversible_blocks() {
    let capture = made_up(&[(1, 0), (2, 0), (3, 0), (3, 1), (4, 1), (5, 1), (6, 1)], 4);
    let results = played(&capture, None, BlocksRequest { irreversible_only: true, ..request(2, &[]) }, 99);
    assert_eq!(blocks(&results), [position(2, 0), position(3, 1), position(4, 1)]);
    assert!(results.iter().all(|result| result.last_irreversible.num == 4 && result.head.num == 6));
}

#[test]
fn coming_back_after_any_frame_of_a_forked_chain_misses_none() {
    let Some(capture) = recorded("fork") else { return };
    let replay = Replay::new(&capture, None).expect("playable");
    for seen in 1..capture.frames.len() {
        let positions = standing(&capture.frames[..seen], &capture.protocol);
        let start = positions.last().map_or(1, |last| last.num + 1);
        let next = replay.next(&mut replay.player(request(start, &positions))).expect("a frame");
        assert!(next.begin == capture.frames[seen], "behind frame {seen}");
    }
}

#[test]
fn the_status_tells_what_the_capture_holds() {
    let mut capture = forked();
    capture.frames.remove(0);
    let replay = Replay::new(&capture, None).expect("playable");
    let status = replay.status();
    assert_eq!((status.head, status.last_irreversible), (position(6, 2), position(1, 0)));
    assert_eq!((status.trace_begin_block, status.trace_end_block), (2, 7));
    assert_eq!((status.chain_state_begin_block, status.chain_state_end_block), (2, 7));
    assert_eq!(status.chain_id, Some(Checksum([7; 32])));
    assert_eq!(replay.recorded_status().head, position(2, 0));
}

#[test]
fn an_endless_chain_is_linked_in_numbers_ids_headers_and_times() {
    // Boot blocks 1 and 2, then 3' 4' 5'' 6'' again and again.
    let results = played(&forked(), Some(3), request(1, &[]), 2 + 4 * 5);
    let mut before: Option<(Position, u32)> = None;
    for (place, result) in results.iter().enumerate() {
        let this = result.this_block.expect("a block");
        let header = result.block.clone().expect("a block");
        let time = u32::from_le_bytes(header[..4].try_into().expect("four"));
        assert_eq!(this.num, place as u32 + 1);
        assert_eq!(this.id.0[..4], this.num.to_be_bytes(), "an id begins with the number");
        if let Some((parent, time_before)) = before {
            assert_eq!(result.prev_block, Some(parent));
            assert_eq!(header[14..46], parent.id.0);
            assert!(time > time_before, "{time} after {time_before}");
        }
        assert!(result.last_irreversible.num <= this.num && result.head.num >= this.num.min(6));
        before = Some((this, time));
    }
    let mut ids: Vec<_> = blocks(&results).into_iter().map(|block| block.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), results.len());
    // The first lap is as recorded, and what is in a block always is.
    assert_eq!(results[5].this_block, Some(position(6, 2)));
    assert!(results.iter().skip(1).all(|result| result.traces.as_deref() == Some(&[0; 10])));
}

#[test]
fn an_endless_chain_can_be_made_now() {
    // Half seconds since 2000-01-01, as the chain counts.
    let now = || (seconds_since_1970() - 946_684_800) * 2;
    let before = now();
    let replay = Replay::new(&forked(), Some(3)).expect("playable").as_of_now();
    let mut player = replay.player(request(1, &[]));
    for num in 1..=10 {
        let frame = replay.next(&mut player).expect("endless");
        let bytes = [frame.begin, frame.rest].concat().into();
        let result = BlockResult::decode(&bytes, &replay.protocol).expect("a block");
        let header = result.block.expect("a block");
        let time = u64::from(u32::from_le_bytes(header[..4].try_into().expect("four")));
        assert_eq!(result.this_block.map(|this| this.num), Some(num));
        assert!((before..=now() + 1).contains(&time), "{time}");
    }
}

fn seconds_since_1970() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()
}

#[test]
fn an_endless_chain_can_be_entered_anywhere() {
    let results = played(&forked(), Some(3), request(1, &[]), 40);
    let all = blocks(&results);
    for from in 1..all.len() {
        let again = played(&forked(), Some(3), request(all[from].num, &all[..from]), 40 - from);
        assert!(again == results[from..], "from block {}", all[from].num);
    }
    let mut unknown = all[..20].to_vec();
    unknown[15].id = Checksum([9; 32]);
    assert_eq!(blocks(&played(&forked(), Some(3), request(21, &unknown), 1)), all[15..16]);
    // Where the numbers end, so does the chain.
    assert_eq!(played(&forked(), Some(3), request(u32::MAX - 1, &[]), 9).len(), 1);
}

#[test]
fn what_cannot_be_played_is_refused() {
    let error = |capture: &Capture, from| Replay::new(capture, from).err().expect("refused").to_string();
    assert!(
        error(&plain(3), Some(4))
            .contains("nothing to repeat from block 4 on: the capture ends with block 3")
    );
    assert_eq!(error(&plain(0), None), "the capture holds no block");
    let mut broken = plain(3);
    broken.frames[1].truncate(50);
    assert!(error(&broken, None).starts_with("result frame 1 cannot be read: get_blocks_result_v0:"));
}

#[tokio::test]
async fn an_endless_chain_over_a_socket() {
    let Some(capture) = recorded("spring") else { return };
    let server = serve(&capture, ServeOptions { repeat_from: Some(20), ..ServeOptions::default() }).await;
    let node = NodeOptions { irreversible_only: false, ..options(&[server.url()]) };
    let frames = read(node, 1, 1000).await.expect("more than recorded");
    assert!(frames[..338] == capture.frames);
    let mut prev = None;
    for frame in &frames {
        let result = BlockResult::decode(frame, &capture.protocol).expect("a block");
        assert!(prev.is_none() || result.prev_block == prev);
        prev = result.this_block;
    }
    assert_eq!(prev.map(|last| last.num), Some(1000));
    // A lap is blocks 20 to 338: block 339 holds what block 20 held.
    let part = |num: usize| BlockResult::decode(&frames[num - 1], &capture.protocol).expect("a block");
    assert!(part(339).traces == part(20).traces && part(339).deltas == part(20).deltas);
    assert!(part(339).block.expect("a block")[46..] == part(20).block.expect("a block")[46..]);
}
