//! Looking the history over: what cannot be read or used, and what is missing.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};

use super::record::{self, Record, Source};
use super::{Says, Since};
use crate::abi::Deserializer;
use crate::keys::Keys;
use crate::name::Name;
use crate::publish::Failure;
use crate::stream::{self, Pages};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Findings {
    /// Contracts looked at.
    pub contracts: u64,
    /// Versions looked at.
    pub versions: u64,
    /// Actions whose receipts were compared.
    pub receipts: u64,
    /// All that is wrong, by contract and block.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The contract, or the key where it names none.
    pub contract: String,
    /// The block.
    pub block: u64,
    /// What kind of problem.
    pub kind: Kind,
    /// What is wrong, in words.
    pub message: String,
}

/// Kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The bytes are no ABI that can be used: the contract's data is published undecoded while it is in force.
    BadAbi,
    /// A member that cannot be read: the parser stops when it meets it.
    Unreadable,
    /// Two members for the same moment.
    Duplicate,
    /// A member under another block than its own, or one whose sequence does not fit the order of blocks.
    OutOfOrder,
    /// A member of the TypeScript version, which says the block alone: what ran in it before the setabi is read with it too.
    Plain,
    /// The chain counted more ABIs than the history has.
    Gap,
}

/// Looks at every version of those contracts.
pub async fn versions(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    contracts: &[Name],
    findings: &mut Findings,
) -> Result<(), Failure> {
    let mut last: Option<(Name, Since)> = None;
    findings.contracts += contracts.len() as u64;
    record::each(connection, keys, contracts, |contract, records| {
        for record in records {
            findings.versions += 1;
            let before = last.filter(|(of, _)| *of == contract).map(|(_, since)| since);
            let problems = problems(&record, before);
            let block = record.score as u64;
            findings.problems.extend(problems.into_iter().map(|(kind, message)| Problem {
                contract: contract.to_string(),
                block,
                kind,
                message,
            }));
            if let Some(version) = &record.version {
                last = Some((contract, version.since));
            }
        }
    })
    .await
}

fn problems(record: &Record, before: Option<Since>) -> Vec<(Kind, String)> {
    let Some(version) = &record.version else {
        let member = String::from_utf8_lossy(&record.member);
        let start: String = member.chars().take(40).collect();
        return vec![(
            Kind::Unreadable,
            format!("the member `{start}…` is neither BLOCK:SEQUENCE:BASE64 nor base64"),
        )];
    };
    let mut problems = Vec::new();
    let since = version.since;
    if let Says::Bad(bad) = version.says(Deserializer::Compiled) {
        problems.push((Kind::BadAbi, bad.to_string()));
    }
    if record.source == Source::Plain {
        problems.push((
            Kind::Plain,
            "a member of the TypeScript version: the place in the block is not known".to_owned(),
        ));
    }
    if record.score != f64::from(since.block) {
        problems.push((
            Kind::OutOfOrder,
            format!("its score is {}, but it says block {}", record.score, since.block),
        ));
    }
    match before {
        Some(before) if before == since => {
            problems.push((Kind::Duplicate, "there is another version for the same moment".to_owned()));
        }
        Some(before)
            if [before, since].iter().all(|since| ![Since::BEFORE, Since::END].contains(&since.sequence))
                && before.sequence > since.sequence =>
        {
            let message = format!(
                "its global sequence {} is below that of the version before it, {}",
                since.sequence, before.sequence
            );
            problems.push((Kind::OutOfOrder, message));
        }
        _ => {}
    }
    problems
}

/// An action's receipt in an event.
#[derive(Deserialize)]
struct Event {
    kind: String,
    account: Option<String>,
    block_num: Option<u32>,
    receipt: Option<Receipt>,
    /// It does not stand in its block's place.
    #[serde(default)]
    replayed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    global_sequence: String,
    abi_sequence: u64,
}

/// A receipt: which action, and how many ABIs its contract had had then.
#[derive(Clone, Copy)]
struct Counted {
    block: u32,
    global: u64,
    abis: u64,
}

/// Whether a version may be one that the chain counted between two receipts.
fn may_count(record: &Record, before: Counted, now: Counted) -> bool {
    let Some(version) = &record.version else { return false };
    let block = version.since.block;
    match record.source {
        Source::Setabi => (before.global + 1..=now.global).contains(&version.since.sequence),
        // Set somewhere in that block.
        Source::Plain | Source::End => (before.block..=now.block).contains(&block),
        // Learned before the block's first action.
        Source::Before => (before.block + 1..=now.block).contains(&block),
        Source::ChainApi | Source::Unreadable => false,
    }
}

/// Compares the count of ABIs in the receipts of the stream's actions with the versions that were learned from setabi
/// actions. `progress` is told how many entries were looked at.
pub async fn receipts(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    findings: &mut Findings,
    mut progress: impl FnMut(u64),
) -> Result<(), Failure> {
    let mut last: HashMap<Name, Counted> = HashMap::new();
    let mut rises: Vec<(Name, Counted, Counted)> = Vec::new();
    let mut seen = 0u64;
    let mut pages = Pages::forward(&keys.events, "-");
    while let Some(page) = pages.next(connection).await? {
        seen += page.len() as u64;
        progress(seen);
        for entry in &page {
            let event = stream::data(entry).and_then(|data| serde_json::from_slice::<Event>(data).ok());
            let Some(event) = event.filter(|event| !event.replayed) else { continue };
            if event.kind == "fork" {
                // What comes again is counted anew.
                last.clear();
            }
            let account = event.account.and_then(|account| account.parse::<Name>().ok());
            let (Some(account), Some(block), Some(receipt)) = (account, event.block_num, event.receipt)
            else {
                continue;
            };
            let Ok(global) = receipt.global_sequence.parse() else { continue };
            findings.receipts += 1;
            let now = Counted { block, global, abis: receipt.abi_sequence };
            match last.get(&account) {
                Some(before) if before.abis == now.abis => {}
                Some(before) => rises.push((account, *before, now)),
                None => {}
            }
            last.insert(account, now);
        }
    }
    for (contract, before, now) in rises {
        let mut known = 0;
        record::each(connection, keys, &[contract], |_, records| {
            known += records.iter().filter(|record| may_count(record, before, now)).count() as u64;
        })
        .await?;
        let counted = now.abis.saturating_sub(before.abis);
        if known < counted {
            findings.problems.push(Problem {
                contract: contract.to_string(),
                block: now.block.into(),
                kind: Kind::Gap,
                message: format!(
                    "the chain counted {counted} ABIs between block {} and block {}, the history has {known}",
                    before.block, now.block
                ),
            });
        }
    }
    Ok(())
}
