//! A frame of a public chain, taken apart by somebody else.

mod captures;

use bytes::Bytes;
use captures::shared;
use parser::block::Checksum;
use parser::ship::message::{Answer, BlockResult};
use parser::ship::protocol::Protocol;

#[test]
fn a_public_chains_frame_reads_as_an_independent_decoder_read_it() {
    let Some(hex) = shared("public/wax_300000000.hex") else { return };
    let Some(json) = shared("public/wax_300000000.json") else { return };
    let text = std::fs::read_to_string(hex).expect("readable");
    let frame = Bytes::from(parser::hex::parse(text.trim()).expect("hexadecimal"));
    let protocol = Protocol::parse(include_str!("../abi/leap-4.0.6.json")).expect("known");
    let block = BlockResult::decode(&frame, &protocol).expect("whole");

    let json = std::fs::read_to_string(json).expect("readable");
    let expected: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    for (name, position) in [
        ("head", Some(block.head)),
        ("last_irreversible", Some(block.last_irreversible)),
        ("this_block", block.this_block),
        ("prev_block", block.prev_block),
    ] {
        let position = position.expect(name);
        assert_eq!(expected[name]["block_num"], position.num, "{name}");
        let id: Checksum = expected[name]["block_id"].as_str().expect("id").parse().expect("id");
        assert_eq!(id, position.id, "{name}");
    }
    let header = block.block.clone().expect("a block");
    assert_eq!(
        u64::from(u32::from_le_bytes(header[..4].try_into().expect("four"))),
        expected["block"]["timestamp_slot"]
    );
    // The first bytes of each part are its number of items.
    assert_eq!(
        usize::from(block.traces.as_ref().expect("traces")[0]),
        expected["traces"].as_array().expect("list").len()
    );
    assert_eq!(
        usize::from(block.deltas.as_ref().expect("deltas")[0]),
        expected["deltas"].as_array().expect("list").len()
    );
    assert_eq!(Answer::decode(&frame, &protocol), Ok(Answer::Block(block.clone())));
    assert_eq!(block.encode(&protocol), frame);
}
