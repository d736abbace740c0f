//! Section 3: the decoders side by side, one thread each, over the same bytes.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use parser::abi::{Abi, Deserializer, TypeId};
use parser::chain::Chain;
use parser::event::Style;
use parser::history::{Fallback, History, Version};
use parser::name::Name;
use parser::out::Out;
use parser::pipeline::{Intake, Ready};
use parser::plan::{Selection, TableKind};
use parser::ship::message::BlockResult;
use parser::walk::{ContractRow, Rows};
use rs_abieos::AbiHandle;

use crate::hand_written;
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Latency, Spread, number, spread};
use crate::workload::Bench;

const TRANSFER: Name = Name::literal("transfer");

/// Bytes to decode and as what.
struct Item {
    abi: usize,
    id: TypeId,
    data: Range<usize>,
    /// Where its JSON stands among all JSON.
    json: Range<usize>,
}

/// Values one behind the other, as in a frame.
#[derive(Default)]
struct Values {
    items: Vec<Item>,
    data: Vec<u8>,
    /// What the compiled decoder makes of it.
    json: Vec<u8>,
}

/// All that is decoded.
#[derive(Default)]
struct Items {
    abis: Vec<CompiledAbi>,
    by_bytes: HashMap<Box<[u8]>, Option<usize>>,
    all: Values,
    /// Actions called `transfer` that the hand-written decoder reads.
    transfers: Values,
}

struct CompiledAbi {
    bytes: Box<[u8]>,
    abi: Abi,
}

/// One decoder's results.
struct Measured {
    name: &'static str,
    /// Nanoseconds a value, one number a repetition.
    each: Vec<f64>,
    p99: f64,
}

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    section.text(
        "One thread, over bytes in memory in the order they came, from packed bytes to JSON in a buffer that is used again; ABIs \
         were parsed before. The limit is a memory copy of the same JSON. Decoders take turns. p99 is of single values timed one by \
         one, which adds the clock's own time to each. *Written by hand* is a plain decoder of this one type that knows no ABI.",
    );
    let items = Items::of(bench)?;
    let repetitions = bench.pick(3, 7);
    let over_all = items.measure(&items.all, false, repetitions)?;
    let over_transfers = items.measure(&items.transfers, true, repetitions)?;
    for (what, values, measured) in
        [("all actions and rows", &items.all, &over_all), ("transfers", &items.transfers, &over_transfers)]
    {
        let count = values.items.len() as f64;
        let (packed, json) = (values.data.len() as f64 / count, values.json.len() as f64 / count);
        section.text(format!(
            "Over {what} of the recording: {} values, {} packed bytes and {} bytes of JSON each.",
            number(count),
            number(packed),
            number(json),
        ));
        section.table(&table(measured, json));
        section.figures.extend(figures(what, measured));
    }
    if cfg!(not(feature = "cpp-oracle")) {
        section.text("C++ abieos was not built for this run: that takes clang and libclang.");
    }
    if let Some(compiled) = over_all.iter().find(|measured| measured.name == COMPILED) {
        section.facts.insert("decoded_per_second", 1e9 / Spread::of(compiled.each.iter().copied()).median);
    }
    Ok(())
}

const COPY: &str = "memory copy (limit)";
const COMPILED: &str = "compiled";
const ABIEOS: &str = "rs_abieos";
#[cfg(feature = "cpp-oracle")]
const CPP: &str = "C++ abieos";
const BY_HAND: &str = "written by hand";

fn table(measured: &[Measured], json: f64) -> Table {
    let mut table = Table::new(&[
        "decoder",
        "ns a value",
        "values/s a core",
        "MB/s of JSON",
        "p99, ns",
        "its time is so many times the compiled one's",
    ]);
    let compiled = measured.iter().find(|one| one.name == COMPILED);
    for one in measured {
        let each = Spread::of(one.each.iter().copied());
        let times = compiled.map(|compiled| ratio(one, compiled));
        table.row(&[
            one.name.to_owned(),
            spread(&each),
            number(1e9 / each.median),
            number(json * 1e3 / each.median),
            number(one.p99),
            times.map_or("–".to_owned(), |times| spread(&times)),
        ]);
    }
    table
}

/// The first one's time in the second one's.
fn ratio(one: &Measured, other: &Measured) -> Spread {
    Spread::of(one.each.iter().zip(&other.each).map(|(one, other)| one / other))
}

fn figures(what: &str, measured: &[Measured]) -> Vec<Figure> {
    let Some(compiled) = measured.iter().find(|one| one.name == COMPILED) else { return Vec::new() };
    let time = |one: &Measured| format!("{} ns", number(Spread::of(one.each.iter().copied()).median));
    let mut figures = Vec::new();
    for one in measured {
        let target = match one.name {
            ABIEOS => 8.0,
            #[cfg(feature = "cpp-oracle")]
            CPP => 12.0,
            BY_HAND => 0.6,
            _ => continue,
        };
        let key = format!("decoder-{}-{}", one.name.replace(' ', "-"), what.replace(' ', "-")).to_lowercase();
        let words = format!("compiled decoder against {}, time over {what}", one.name);
        let figure = Figure::ratio(&key, &words, ratio(one, compiled), Better::Higher);
        figures.push(figure.of(time(compiled), time(one)).target(target));
    }
    if let Some(copy) = measured.iter().find(|one| one.name == COPY) {
        let key = format!("decoder-copy-{}", what.replace(' ', "-"));
        let words = format!("compiled decoder against a memory copy of its output, {what}");
        figures.push(
            Figure::ratio(&key, &words, ratio(copy, compiled), Better::Higher).of(time(compiled), time(copy)),
        );
    }
    figures
}

// === impl Values ===

impl Values {
    fn push(&mut self, abi: usize, id: TypeId, data: &[u8], json: &[u8]) {
        let (at, from) = (self.data.len(), self.json.len());
        self.data.extend_from_slice(data);
        self.json.extend_from_slice(json);
        self.items.push(Item { abi, id, data: at..self.data.len(), json: from..self.json.len() });
    }
}

// === impl Items ===

impl Items {
    /// Every action and row that the recording publishes and its contract's ABI reads, each with the version in force.
    fn of(bench: &Bench) -> Result<Items> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let history = History::new(None, Fallback::Publish, Vec::new(), BTreeMap::new());
        let (chain, selection) = (Chain::new(&[], None, None), Selection::default());
        let mut intake = Intake::new(bench.chain_id, chain, history, selection, Style::default());
        intake.connected(bench.capture.protocol.clone(), &bench.capture.status, None)?;
        let mut items = Items::default();
        for frame in &bench.capture.frames {
            let result = BlockResult::decode(frame, &bench.capture.protocol)?;
            let ready = runtime.block_on(intake.take(&result))?;
            if let Some(ready) = ready {
                intake.settle(ready.position.num.min(ready.last_irreversible));
                items.add_block(&ready)?;
            }
        }
        Ok(items)
    }

    fn add_block(&mut self, ready: &Ready) -> Result<()> {
        let (plan, abis) = (&ready.block.plan, &ready.block.abis);
        for action in &plan.actions {
            let trace = &plan.action_traces[action.trace as usize];
            let in_force = abis.get(&trace.account);
            let version = in_force.and_then(|in_force| in_force.at(trace.receipt.global_sequence));
            let data = trace.data.of(&plan.traces);
            self.add(version, |abi| abi.action_type(trace.name), data, trace.name == TRANSFER);
        }
        for run in plan.parts.iter().flat_map(|part| &part.rows) {
            if plan.tables[run.table as usize].kind != TableKind::ContractRow {
                continue;
            }
            let mut rows = Rows::starting_at(&plan.deltas, run.at, run.rows);
            while let Some(row) = rows.next()? {
                let row = ContractRow::read(row.data)?;
                let version = abis.get(&row.code).and_then(|in_force| in_force.newest());
                self.add(version, |abi| abi.table_type(row.table), row.value, false);
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        version: Option<&Version>,
        type_of: impl FnOnce(&Abi) -> Option<TypeId>,
        data: &[u8],
        transfer: bool,
    ) {
        let Some(version) = version else { return };
        let Some(abi) = self.abi(version.bytes()) else { return };
        let compiled = &self.abis[abi].abi;
        let Some(id) = type_of(compiled) else { return };
        let mut json = Out::default();
        let Ok(decoded) = compiled.decode(id, data, &mut json) else { return };
        // What other decoders read otherwise, or not to its end, is no common ground.
        if decoded.consumed != data.len() || decoded.repaired {
            return;
        }
        let mut by_hand = Out::default();
        if transfer && hand_written::transfer(data, &mut by_hand) && by_hand[..] == json[..] {
            self.transfers.push(abi, id, data, &json);
        }
        self.all.push(abi, id, data, &json);
    }

    fn abi(&mut self, bytes: &[u8]) -> Option<usize> {
        if let Some(known) = self.by_bytes.get(bytes) {
            return *known;
        }
        let compiled = Abi::from_binary(bytes, Deserializer::Compiled).ok();
        let index = compiled.map(|abi| {
            self.abis.push(CompiledAbi { bytes: bytes.into(), abi });
            self.abis.len() - 1
        });
        self.by_bytes.insert(bytes.into(), index);
        index
    }

    /// Runs all decoders over some of the items, in turns. Each must give the same JSON first.
    fn measure(&self, values: &Values, by_hand: bool, repetitions: usize) -> Result<Vec<Measured>> {
        let mut handles = self
            .abis
            .iter()
            .map(|abi| AbiHandle::from_bin(&abi.bytes))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| anyhow!("rs_abieos: {error}"))?;
        let mut text = String::new();
        let mut copy = |item: &Item, out: &mut Out| out.append(&values.json[item.json.clone()]);
        let mut compiled = |item: &Item, out: &mut Out| {
            // It was decoded before.
            let _ = self.abis[item.abi].abi.decode(item.id, &values.data[item.data.clone()], out);
        };
        let mut abieos = |item: &Item, out: &mut Out| {
            let name = self.abis[item.abi].abi.type_name(item.id);
            let _ = handles[item.abi].bin_to_json_into(name, &values.data[item.data.clone()], &mut text);
            // Into the same kind of buffer, as a caller who makes events of it must.
            out.append(text.as_bytes());
        };
        let mut hand = |item: &Item, out: &mut Out| {
            hand_written::transfer(&values.data[item.data.clone()], out);
        };
        #[cfg(feature = "cpp-oracle")]
        let cpp = crate::cpp_abieos::CppAbieos::new(self.abis.iter().map(|abi| &*abi.bytes))?;
        #[cfg(feature = "cpp-oracle")]
        let names = self.type_names();
        #[cfg(feature = "cpp-oracle")]
        let mut cpp = |item: &Item, out: &mut Out| {
            cpp.decode(item.abi, &names[&(item.abi, item.id)], &values.data[item.data.clone()], out);
        };
        let mut decoders: Vec<(&'static str, &mut dyn Decoder)> =
            vec![(COPY, &mut copy), (COMPILED, &mut compiled), (ABIEOS, &mut abieos)];
        #[cfg(feature = "cpp-oracle")]
        decoders.push((CPP, &mut cpp));
        if by_hand {
            decoders.push((BY_HAND, &mut hand));
        }
        let mut measured = Vec::new();
        for (name, decoder) in &mut decoders {
            let wrong = decoder.first_wrong(values);
            if let Some(wrong) = wrong {
                let what = || self.abis[wrong.abi].abi.type_name(wrong.id);
                return Err(anyhow!("{}", what())).with_context(|| format!("{name} decodes otherwise"));
            }
            let p99 = decoder.latency(&values.items).percentile(99.0) * 1e6;
            measured.push(Measured { name, each: Vec::new(), p99 });
        }
        for _ in 0..repetitions {
            for ((_, decoder), measured) in decoders.iter_mut().zip(&mut measured) {
                measured
                    .each
                    .push(decoder.total(&values.items).as_nanos() as f64 / values.items.len() as f64);
            }
        }
        Ok(measured)
    }

    #[cfg(feature = "cpp-oracle")]
    fn type_names(&self) -> HashMap<(usize, TypeId), std::ffi::CString> {
        let name =
            |abi: usize, id| std::ffi::CString::new(self.abis[abi].abi.type_name(id)).unwrap_or_default();
        self.all.items.iter().map(|item| ((item.abi, item.id), name(item.abi, item.id))).collect()
    }
}

/// The loops around a decoder, compiled for each by itself, so that no call through a pointer is measured.
trait Decoder {
    /// The first item whose JSON is another than expected, see [`alike`].
    fn first_wrong<'a>(&mut self, values: &'a Values) -> Option<&'a Item>;
    /// Time for all.
    fn total(&mut self, list: &[Item]) -> Duration;
    /// Time for each.
    fn latency(&mut self, list: &[Item]) -> Latency;
}

/// The same text; or, as C++ abieos escapes other characters and rounds halfway floats otherwise, the same value.
fn alike(one: &[u8], other: &[u8]) -> bool {
    let value = |text| serde_json::from_slice::<serde_json::Value>(text).ok();
    one == other || cfg!(feature = "cpp-oracle") && value(one).is_some_and(|one| value(other) == Some(one))
}

impl<F: FnMut(&Item, &mut Out)> Decoder for F {
    fn first_wrong<'a>(&mut self, values: &'a Values) -> Option<&'a Item> {
        let mut out = Out::default();
        values.items.iter().find(|item| {
            out.clear();
            self(item, &mut out);
            !alike(&out, &values.json[item.json.clone()])
        })
    }

    fn total(&mut self, list: &[Item]) -> Duration {
        let mut out = Out::with_room(1 << 20);
        let began = Instant::now();
        for item in list {
            out.clear();
            self(item, &mut out);
            black_box(&out);
        }
        began.elapsed()
    }

    fn latency(&mut self, list: &[Item]) -> Latency {
        let (mut latency, mut out) = (Latency::new(), Out::with_room(1 << 20));
        for item in list {
            out.clear();
            let began = Instant::now();
            self(item, &mut out);
            latency.record(began.elapsed());
            black_box(&out);
        }
        latency
    }
}
