//! Measures the parser on this machine, beside the limits of this machine, and writes BASELINE.md. Started by
//! `scripts/bench`.
//!
//! A module a section of the report, named by what it measures. What they share: `workload` (the capture), `node`,
//! `redis` and `program` (the three processes), `recording` and `bare_writer` (the limit of publishing), `process` and
//! `machine` (what Linux says), `stats`, `report`, `baseline` (the committed figures).

mod abi_lookup;
mod bare_writer;
mod baseline;
#[cfg(feature = "cpp-oracle")]
mod cpp_abieos;
mod dead_letters;
mod decoders;
mod end_to_end;
mod growth;
mod hand_written;
mod head_latency;
mod machine;
mod made;
mod memory;
mod node;
mod process;
mod program;
mod receive;
mod recording;
mod redis;
mod report;
mod stats;
mod trim;
mod workload;
mod xadd;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;

use baseline::Baseline;
use machine::Machine;
use report::Section;
use workload::Bench;

/// Files that a whole run writes.
const REPORT: &str = "BASELINE.md";
const FIGURES: &str = "bench/baseline.json";

/// Measures the parser beside the limits of this machine and writes BASELINE.md.
#[derive(Debug, Parser)]
#[command(name = "scripts/bench")]
struct Cli {
    /// Fewer repetitions and variants: some three minutes
    #[arg(long)]
    quick: bool,
    /// The short version, without writing anything: fail if a ratio to its limit fell behind the committed one
    #[arg(long, conflicts_with = "section")]
    check: bool,
    /// Measure and print this section alone (may be repeated); nothing is written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    section: Vec<u8>,
}

/// A section's title and what measures it.
type Measure = (&'static str, fn(&mut Bench, &mut Section) -> Result<()>);

/// From 1.
const SECTIONS: [Measure; 9] = [
    ("XADD", xadd::section),
    ("ABI look-up", abi_lookup::section),
    ("Decoders", decoders::section),
    ("End to end", end_to_end::section),
    ("Memory", memory::section),
    ("Dead letters", dead_letters::section),
    ("Latency at the head", head_latency::section),
    ("XTRIM running and not", trim::section),
    ("Growth", growth::section),
];

fn main() -> Result<()> {
    let cli = Cli::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let committed = if cli.check { Some(Baseline::load(&root.join(FIGURES))?) } else { None };
    let mut machine = Machine::look(&root, &[REPORT, FIGURES])?;
    let began = Instant::now();
    eprintln!("reading the recording");
    let mut bench = Bench::new(&root, program()?, cli.quick || cli.check)?;
    let wanted = |number: &u8| cli.section.is_empty() || cli.section.contains(number);
    let mut sections: Vec<Section> =
        (1..=SECTIONS.len() as u8).filter(wanted).map(|number| measure(&mut bench, number, began)).collect();
    let behind = committed.map(|committed| behind(&mut bench, &committed, &mut sections, began));
    machine.look_again()?;
    eprintln!("done in {} s", began.elapsed().as_secs());
    let failed: Vec<String> =
        sections.iter().filter(|section| section.failed).map(|section| section.number.to_string()).collect();
    if !cli.section.is_empty() {
        for section in &sections {
            println!("{}", section.markdown());
        }
    } else {
        let report = report::markdown(&machine, &sections, bench.quick);
        println!("{report}");
        if behind.is_none() {
            fs::write(root.join(REPORT), &report)?;
            let figures = sections.into_iter().flat_map(|section| section.figures).collect();
            Baseline { commit: machine.commit, figures }.save(&root.join(FIGURES))?;
            eprintln!("written: {REPORT}, {FIGURES}");
        }
    }
    ensure!(failed.is_empty(), "could not be measured to the end: section {}", failed.join(", "));
    if let Some(behind) = behind {
        ensure!(behind.is_empty(), "behind the committed baseline:\n  {}", behind.join("\n  "));
        eprintln!("no ratio fell behind the committed ones");
    }
    Ok(())
}

/// Measures a section. A failure stands in it; what was measured before is kept.
fn measure(bench: &mut Bench, number: u8, began: Instant) -> Section {
    let (title, measure) = SECTIONS[usize::from(number) - 1];
    eprintln!("section {number}, {} s", began.elapsed().as_secs());
    let mut section = Section::new(number, title);
    if let Err(error) = measure(bench, &mut section) {
        eprintln!("section {number} failed: {error:#}");
        section.fail(&error);
    }
    section
}

/// Which ratios fell behind the committed ones, a sentence each. A section with one of them is measured once more: what happens
/// once on a machine that does other things too says nothing.
fn behind(bench: &mut Bench, committed: &Baseline, sections: &mut [Section], began: Instant) -> Vec<String> {
    let mut behind = Vec::new();
    for section in sections {
        let first = committed.behind(&section.figures);
        if first.is_empty() {
            continue;
        }
        let again = measure(bench, section.number, began);
        let second = committed.behind(&again.figures);
        behind.extend(second.into_iter().filter(|(key, _)| first.contains_key(key)).map(|(_, words)| words));
        *section = again;
    }
    behind
}

/// The `parser` that was built with this.
fn program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("parser"))
}
