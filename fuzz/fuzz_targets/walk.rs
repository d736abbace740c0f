//! Any bytes as a result frame: no crash and no memory that the frame does not fill, from the frame to the events.
//!
//! The input is a frame as it comes from a Leap node. Its data is decoded twice: with the ABIs that it brings itself, and
//! with those that the bundled recording taught. `scripts/fuzz-seed` makes a corpus of recorded frames.
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 cargo fuzz run walk -s none -- -max_len=16384 -malloc_limit_mb=64 -max_total_time=600
//! ```

#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use futures_util::FutureExt;
use libfuzzer_sys::fuzz_target;
use parser::abi::Deserializer;
use parser::block::{Checksum, Position};
use parser::capture::file::Capture;
use parser::event::{Block, EntryIds, Envelope, ShipTypes, Sink, Style};
use parser::filter::Filter;
use parser::history::{Fallback, History, InForce};
use parser::keys::Keys;
use parser::name::Name;
use parser::plan::{Plan, Selection};
use parser::publish::Buffer;
use parser::ship::message::BlockResult;
use rustc_hash::FxHashMap;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/mixed-100.shipcap.zst");

struct Taught {
    capture: Capture,
    ship: Arc<ShipTypes>,
    keys: Keys,
    abis: Mutex<FxHashMap<Name, InForce>>,
}

static TAUGHT: LazyLock<Taught> = LazyLock::new(|| {
    let capture = Capture::load(RECORDING.as_ref()).expect("the bundled recording");
    let mut history = history();
    let mut abis = FxHashMap::default();
    for frame in &capture.frames {
        let result = BlockResult::decode(frame, &capture.protocol).expect("a block");
        let plan = plan(&capture, &result, &Selection::default()).expect("a plan");
        abis.extend(learn(&mut history, 100, &plan));
    }
    let ship = Arc::new(ShipTypes::new(&capture.protocol, Deserializer::Compiled).expect("the protocol's ABI"));
    let keys = Keys::new("ns", &Checksum::default(), "");
    Taught { capture, ship, keys, abis: Mutex::new(abis) }
});

fuzz_target!(|input: &[u8]| {
    let taught = &*TAUGHT;
    let Ok(result) = BlockResult::decode(&Bytes::copy_from_slice(input), &taught.capture.protocol) else {
        return;
    };
    let selections = [
        Selection::default(),
        // Everything apart, in many parts.
        Selection { notifications: true, part_bytes: 100, ..Selection::default() },
    ];
    let mut own = history();
    let mut taught_abis = taught.abis.lock().expect("no panic before");
    for (selection, keep) in selections.iter().zip([false, true]) {
        let Some(plan) = plan(&taught.capture, &result, selection) else { return };
        let abis =
            if keep { std::mem::take(&mut *taught_abis) } else { learn(&mut own, result.head.num, &plan) };
        let block = Block {
            envelope: Envelope::new(&Checksum::default(), &Position::default(), &plan.header),
            plan,
            abis,
            style: Style { code_bytes: keep, no_abi_dead_letters: keep, ..Style::default() },
            ship: taught.ship.clone(),
            filter: Arc::new(Filter::new(Vec::new(), Vec::new())),
        };
        let mut sink = if keep {
            Sink::stream(&taught.keys, EntryIds::Block { first: 7, next: 1 }, Buffer::default())
        } else {
            Sink::lines()
        };
        for part in 0..block.plan.parts.len() {
            block.write_part(part, &mut sink);
        }
        let chunks = sink.finish();
        let written: u64 = chunks.iter().map(|chunk| chunk.written.entries).sum();
        assert_eq!(written, block.plan.entries(), "as many events as were planned");
        if keep {
            *taught_abis = block.abis;
        } else {
            let text = std::str::from_utf8(&chunks[0].bytes).expect("JSON is text");
            for line in text.lines() {
                serde_json::from_str::<serde::de::IgnoredAny>(line).expect("JSON");
            }
        }
    }
});

fn history() -> History {
    History::new(None, Fallback::Publish, Vec::new(), BTreeMap::new())
}

fn plan(capture: &Capture, result: &BlockResult, selection: &Selection) -> Option<Plan> {
    let block = result.block.as_ref()?;
    let (traces, deltas) =
        (result.traces.clone().unwrap_or_default(), result.deltas.clone().unwrap_or_default());
    Plan::new(&capture.protocol, selection, block, traces, deltas).ok()
}

fn learn(history: &mut History, num: u32, plan: &Plan) -> FxHashMap<Name, InForce> {
    // Without a store nothing is waited for.
    history.block(num, plan).now_or_never().expect("at once").expect("learned").contracts
}
