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

use anyhow::{Result, bail};
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
    /// Fewer repetitions and variants: some two minutes
    #[arg(long)]
    quick: bool,
    /// The short version, without writing anything: fail if a ratio to its limit fell behind the committed one
    #[arg(long, conflicts_with = "section")]
    check: bool,
    /// Measure and print this section alone (may be repeated); nothing is written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    section: Vec<u8>,
}

/// A section's number and what measures it.
type Measure = (u8, fn(&mut Bench) -> Result<Section>);

const SECTIONS: [Measure; 9] = [
    (1, xadd::section),
    (2, abi_lookup::section),
    (3, decoders::section),
    (4, end_to_end::section),
    (5, memory::section),
    (6, dead_letters::section),
    (7, head_latency::section),
    (8, trim::section),
    (9, growth::section),
];

fn main() -> Result<()> {
    let cli = Cli::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let committed = if cli.check { Some(Baseline::load(&root.join(FIGURES))?) } else { None };
    let mut machine = Machine::look(&root, &[REPORT, FIGURES])?;
    let began = Instant::now();
    eprintln!("reading the recording");
    let mut bench = Bench::new(&root, program()?, cli.quick || cli.check)?;
    let mut sections = Vec::new();
    for (number, measure) in SECTIONS {
        if cli.section.is_empty() || cli.section.contains(&number) {
            eprintln!("section {number}, {} s", began.elapsed().as_secs());
            sections.push(measure(&mut bench)?);
        }
    }
    machine.look_again()?;
    eprintln!("done in {} s", began.elapsed().as_secs());
    if !cli.section.is_empty() {
        for section in &sections {
            println!("{}", section.markdown());
        }
        return Ok(());
    }
    let figures = sections.iter().flat_map(|section| section.figures.clone()).collect::<Vec<_>>();
    let report = report::markdown(&machine, &sections, bench.quick);
    println!("{report}");
    match committed {
        Some(committed) => {
            let behind = committed.behind(&figures);
            if !behind.is_empty() {
                bail!("behind the committed baseline:\n  {}", behind.join("\n  "));
            }
            eprintln!("no ratio fell behind the committed ones");
        }
        None => {
            fs::write(root.join(REPORT), &report)?;
            Baseline { commit: machine.commit, figures }.save(&root.join(FIGURES))?;
            eprintln!("written: {REPORT}, {FIGURES}");
        }
    }
    Ok(())
}

/// The `parser` that was built with this.
fn program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("parser"))
}
