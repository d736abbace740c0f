//! What a measurement found: sections of text and tables, and the figures that are compared with targets and with the
//! committed ones.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::stats::{Spread, number, spread};

/// One of the report's numbered sections.
pub struct Section {
    /// From 1.
    pub number: u8,
    /// What it is about.
    pub title: &'static str,
    /// Markdown.
    body: String,
    /// What is compared.
    pub figures: Vec<Figure>,
    /// Single numbers that the report's head needs.
    pub facts: BTreeMap<&'static str, f64>,
    /// Whether it could not be measured to its end.
    pub failed: bool,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Such as a rate against its limit.
    Higher,
    /// Such as CPU time against Redis' own.
    Lower,
}

/// A figure that is compared with a target, with the committed one, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Which it is, for the comparison with a later run.
    pub key: String,
    /// In words.
    pub what: String,
    /// What was measured, in words.
    pub measured: String,
    /// The limit in the same run, in words.
    pub limit: String,
    /// What the target is set for: as a rule the ratio of the two.
    pub value: Spread,
    /// What it is counted in; empty for a ratio.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// At least (or at most) this.
    pub target: Option<f64>,
}

/// A table in Markdown.
pub struct Table(String);

// === impl Section ===

impl Section {
    /// An empty section.
    pub fn new(number: u8, title: &'static str) -> Section {
        Section {
            number,
            title,
            body: String::new(),
            figures: Vec::new(),
            facts: BTreeMap::new(),
            failed: false,
        }
    }

    /// Ends it with what went wrong.
    pub fn fail(&mut self, error: &anyhow::Error) {
        self.failed = true;
        let words = format!("{error:#}").replace('\n', " ");
        self.text(format!("**This section could not be measured to its end: {words}**"));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl AsRef<str>) {
        let _ = write!(self.body, "{}\n\n", text.as_ref());
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        let _ = writeln!(self.body, "{}", table.0);
    }

    /// The section as Markdown.
    pub fn markdown(&self) -> String {
        format!("## {} {}\n\n{}", self.number, self.title, self.body)
    }
}

// === impl Figure ===

impl Figure {
    /// A ratio to a limit.
    pub fn ratio(key: &str, what: &str, value: Spread, better: Better) -> Figure {
        Figure {
            key: key.to_owned(),
            what: what.to_owned(),
            measured: String::new(),
            limit: String::new(),
            value,
            unit: String::new(),
            better,
            target: None,
        }
    }

    /// Says of what it is the ratio.
    pub fn of(self, measured: String, limit: String) -> Figure {
        Figure { measured, limit, ..self }
    }

    /// Sets a target.
    pub fn target(self, target: f64) -> Figure {
        Figure { target: Some(target), ..self }
    }

    /// Counts in something.
    pub fn unit(self, unit: &str) -> Figure {
        Figure { unit: unit.to_owned(), ..self }
    }

    fn met(&self) -> Option<bool> {
        self.target.map(|target| match self.better {
            Better::Higher => self.value.median >= target,
            Better::Lower => self.value.median <= target,
        })
    }
}

// === impl Table ===

impl Table {
    /// A table with these columns; those after the first are numbers.
    pub fn new(columns: &[&str]) -> Table {
        let mut table = Table(String::new());
        table.row(columns);
        let rule: Vec<&str> = (0..columns.len()).map(|i| if i == 0 { "---" } else { "---:" }).collect();
        table.row(&rule);
        table
    }

    /// As Markdown.
    pub fn markdown(&self) -> &str {
        &self.0
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[impl AsRef<str>]) {
        let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
        let _ = writeln!(self.0, "| {} |", cells.join(" | "));
    }
}

/// The whole report.
pub fn markdown(machine: &Machine, sections: &[Section], quick: bool) -> String {
    let mut out = String::from(HEAD);
    out.push_str(&machine.markdown());
    if quick {
        out.push_str("**Short version (`--quick`): fewer repetitions and variants.**\n\n");
    }
    for section in sections.iter().filter(|section| section.failed) {
        let _ = write!(
            out,
            "**Section {} ({}) could not be measured to its end: the reason stands there.**\n\n",
            section.number, section.title
        );
    }
    out.push_str("## Against the targets\n\n");
    let mut table =
        Table::new(&["what", "measured", "limit in the same run", "ratio or value", "target", ""]);
    for figure in sections.iter().flat_map(|section| &section.figures) {
        let (Some(target), Some(met)) = (figure.target, figure.met()) else { continue };
        let sign = if figure.better == Better::Higher { "≥" } else { "≤" };
        table.row(&[
            figure.what.clone(),
            figure.measured.clone(),
            figure.limit.clone(),
            format!("{} {}", spread(&figure.value), figure.unit).trim().to_owned(),
            format!("{sign} {} {}", number(target), figure.unit).trim().to_owned(),
            if met { "met".to_owned() } else { "**missed**".to_owned() },
        ]);
    }
    let _ = writeln!(out, "{}", table.0);
    out.push_str(&beside_typescript(sections));
    for section in sections {
        out.push_str(&section.markdown());
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

const HEAD: &str = "\
# Baseline

What the parser does on one machine, beside what that machine could do at most. Written by `scripts/bench`; do not edit it.

Numbers of one machine mean little on another, so each that depends on the machine stands beside its **limit**: the same work done
in the same run by something that does nothing else. The *ratio* of the two is what travels. Where something was repeated, both
sides took turns, the middle one is given, and the least and the highest in parentheses. `scripts/bench --check` runs a short
version and fails where a ratio lies further below (or above, where less is better) the one given here than its repetitions lay apart.

";

/// The TypeScript version's report beside this one.
fn beside_typescript(sections: &[Section]) -> String {
    let facts: BTreeMap<_, _> = sections.iter().flat_map(|section| section.facts.clone()).collect();
    let fact = |name: &str| facts.get(name).map_or("–".to_owned(), |value| number(*value));
    let mut out = String::from("## Beside the TypeScript version\n\n");
    let mut table = Table::new(&["", "TypeScript version", "here"]);
    for (what, theirs, ours) in [
        ("machine", "14-core Xeon, 4 threads", "this one, 2 threads"),
        ("blocks/s", "142", &fact("blocks_per_second")),
        ("actions/s, notifications counted", "25,600", &fact("traces_per_second")),
        ("entries/s", "31,000", &fact("events_per_second")),
        ("XADD alone p50 / p99, ms", "0.18 / 0.71", &format!("{} / {}", fact("xadd_p50"), fact("xadd_p99"))),
        ("XADD/s, one at a time", "5,600", &fact("xadd_per_second")),
        ("ABI look-up p50 / p99, ms", "0.09 / 0.38", &format!("{} / {}", fact("abi_p50"), fact("abi_p99"))),
        ("decoded actions/s a thread", "3,200", &fact("decoded_per_second")),
        (
            "memory idle / loaded, MB",
            "68 / 142",
            &format!("{} / {}", fact("idle_mb"), fact("catching_up_mb")),
        ),
    ] {
        table.row(&[what, theirs, ours]);
    }
    let _ = writeln!(out, "{}", table.0);
    out.push_str(
        "Its report gives 10,000 blocks of about 180 actions and 40 rows after a warm-up of 2,000, AOF `everysec`. Its parts do not add \
         up: 4 threads that decode 3,200 actions/s each make 12,800 a second, not 25,600, and 31,000 entries/s do not fit \
         through 5,600 XADDs a second. Here they must:\n\n",
    );
    let product = |a: &str, b: &str| match (facts.get(a), facts.get(b)) {
        (Some(a), Some(b)) => number(a * b),
        _ => "–".to_owned(),
    };
    let quotient = |a: &str, b: &str| match (facts.get(a), facts.get(b)) {
        (Some(a), Some(b)) => number(a / b),
        _ => "–".to_owned(),
    };
    let _ = write!(
        out,
        "- {} blocks/s × {} events a block = {} events/s; measured {}.\n\
         - {} blocks/s × {} action traces a block = {} a second, of which {} a second are events (the others are notifications, \
         named in the event they belong to).\n\
         - {} events/s × {} bytes of commands an event = {} MB/s to Redis; measured {}.\n\
         - Each event is one XADD, pipelined: the bare writer pushes {} of the same a second, so Redis is {} of the time busy at that \
         rate with what {} events/s need.\n\
         - Decoding: {} actions and rows a second and core, {} a second needed: {} of a core.\n\n",
        fact("blocks_per_second"),
        fact("events_per_block"),
        product("blocks_per_second", "events_per_block"),
        fact("events_per_second"),
        fact("blocks_per_second"),
        fact("traces_per_block"),
        product("blocks_per_second", "traces_per_block"),
        fact("actions_per_second"),
        fact("events_per_second"),
        fact("bytes_per_event"),
        facts
            .get("events_per_second")
            .zip(facts.get("bytes_per_event"))
            .map_or("–".to_owned(), |(a, b)| number(a * b / 1e6)),
        fact("mb_out_per_second"),
        fact("bare_events_per_second"),
        quotient("events_per_second", "bare_events_per_second"),
        fact("events_per_second"),
        fact("decoded_per_second"),
        fact("decodes_needed_per_second"),
        quotient("decodes_needed_per_second", "decoded_per_second"),
    );
    out
}
