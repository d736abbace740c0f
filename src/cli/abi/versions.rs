//! `parser abi list` and `parser abi show`.

use std::io::{self, Write};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::contracts;
use crate::abi::{Deserializer, file};
use crate::cli::namespace::{ConfigArg, JsonArg};
use crate::cli::table::{Column, Table, grouped, print_json, print_json_line, printable};
use crate::cli::{block_on, contract};
use crate::hex;
use crate::history::Says;
use crate::history::record::{self, Record, Source};
use crate::name::Name;

/// `parser abi list`
#[derive(Debug, Args)]
pub struct ListAbisArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Only these contracts
    #[arg(value_name = "CONTRACT", value_parser = contract)]
    contracts: Vec<Name>,
    /// As JSON, one line a version
    #[arg(long)]
    json: bool,
}

/// `parser abi show`
#[derive(Debug, Args)]
pub struct ShowAbiArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// The contract
    #[arg(value_name = "CONTRACT", value_parser = contract)]
    contract: Name,
    /// The version in force at the end of this block; default: the newest
    #[arg(long, value_name = "BLOCK")]
    at: Option<u32>,
    #[command(flatten)]
    output: JsonArg,
}

/// A version as `--json` tells it.
#[derive(Serialize)]
struct Row {
    contract: String,
    block: u64,
    /// 64 bits, so a string; `None` where the member does not say it.
    sequence: Option<String>,
    source: &'static str,
    size: Option<usize>,
    sha256: Option<String>,
    usable: bool,
    /// Why it cannot be used; "no ABI" is no error.
    error: Option<String>,
}

pub(super) fn list(args: ListAbisArgs) -> Result<()> {
    block_on(async {
        let mut namespace = args.config.open().await?;
        let contracts = contracts(&mut namespace, args.contracts).await?;
        let mut table = Table::new(&[
            Column::Text("contract"),
            Column::Number("block"),
            Column::Text("source"),
            Column::Number("size"),
            Column::Text("sha256"),
            Column::Text("ABI"),
        ]);
        let mut printed = Ok(());
        record::each(&mut namespace.connection, &namespace.keys, &contracts, |contract, records| {
            for record in records {
                let row = Row::new(contract, &record);
                if args.json {
                    printed = std::mem::replace(&mut printed, Ok(())).and_then(|()| print_json_line(&row));
                } else {
                    table.row(row.cells(&record));
                }
            }
        })
        .await?;
        printed?;
        if args.json {
            return Ok(());
        }
        if table.is_empty() {
            writeln!(
                io::stdout(),
                "The history has no version{}.",
                if contracts.is_empty() { "" } else { " of these contracts" }
            )?;
            return Ok(());
        }
        table.print()?;
        Ok(())
    })
}

pub(super) fn show(args: ShowAbiArgs) -> Result<()> {
    block_on(async {
        let mut namespace = args.config.open().await?;
        let (connection, keys, contract) = (&mut namespace.connection, &namespace.keys, args.contract);
        let Some(record) = record::in_force(connection, keys, contract, args.at).await? else {
            let first = record::next_block(connection, keys, contract, args.at.unwrap_or(0)).await?;
            match (first, args.at) {
                (Some(first), Some(at)) => {
                    bail!(
                        "the history of `{contract}` begins with block {first}: it says nothing of block {at}"
                    )
                }
                _ => bail!("the history has no ABI of `{contract}`"),
            }
        };
        let row = Row::new(contract, &record);
        let until = record::next_block(connection, keys, contract, record.score as u32).await?;
        let Some(version) = &record.version else {
            bail!(
                "the newest member of `{}` at block {} cannot be read: see `parser abi check`",
                keys.abi(contract),
                row.block
            )
        };
        let json = match version.bytes() {
            [] => None,
            bytes => Some(file::to_json(bytes)),
        };
        if args.output.json {
            #[derive(Serialize)]
            struct Shown<'a> {
                #[serde(flatten)]
                row: &'a Row,
                next_version_block: Option<u32>,
                abi: Option<&'a serde_json::Value>,
                /// Where its JSON cannot be written.
                abi_hex: Option<String>,
            }
            let abi = json.as_ref().and_then(|json| json.as_ref().ok());
            let abi_hex = (abi.is_none() && json.is_some()).then(|| hex::lower(version.bytes()));
            return Ok(print_json(&Shown { row: &row, next_version_block: until, abi, abi_hex })?);
        }
        let mut out = io::stdout().lock();
        writeln!(out, "contract  {contract}")?;
        writeln!(out, "in force  {}", in_force(&record, until))?;
        writeln!(out, "source    {}", source(&record))?;
        writeln!(out, "size      {} bytes", grouped(version.bytes().len() as u64))?;
        writeln!(out, "sha256    {}", row.sha256.as_deref().unwrap_or_default())?;
        if let Some(error) = &row.error {
            writeln!(out, "unusable  {}", printable(error))?;
        }
        match json {
            None => writeln!(out, "\nThe contract has no ABI.")?,
            Some(Ok(abi)) => {
                writeln!(out)?;
                serde_json::to_writer_pretty(&mut out, &abi).map_err(io::Error::from)?;
                writeln!(out)?;
            }
            Some(Err(error)) => {
                writeln!(out, "\nIt cannot be written as JSON: {}", printable(&error.to_string()))?;
                writeln!(out, "{}", hex::lower(version.bytes()))?;
            }
        }
        Ok(())
    })
}

fn in_force(record: &Record, until: Option<u32>) -> String {
    let block = record.score as u64;
    let from = match record.source {
        Source::ChainApi => "before all that was learned from blocks".to_owned(),
        Source::Setabi => format!("from inside block {block}"),
        Source::End => format!("from the end of block {block}"),
        Source::Before | Source::Plain | Source::Unreadable => format!("from block {block}"),
    };
    match until {
        Some(until) => format!("{from}, until block {until}"),
        None => format!("{from}, until now"),
    }
}

// === impl Row ===

impl Row {
    fn new(contract: Name, record: &Record) -> Row {
        let version = record.version.as_ref();
        let (usable, error) = match version.map(|version| version.says(Deserializer::Compiled)) {
            Some(Says::Abi(_)) => (true, None),
            Some(Says::None) => (false, None),
            Some(Says::Bad(bad)) => (false, Some(bad.to_string())),
            None => (false, Some("the member cannot be read".to_owned())),
        };
        Row {
            contract: contract.to_string(),
            block: version.map_or(record.score as u64, |version| version.since.block.into()),
            sequence: version
                .filter(|_| record.source != Source::Plain)
                .map(|version| version.since.sequence.to_string()),
            source: record.source.as_str(),
            size: version.map(|version| version.bytes().len()),
            sha256: version.map(|version| hex::lower(&Sha256::digest(version.bytes()))),
            usable,
            error,
        }
    }

    fn cells(&self, record: &Record) -> [String; 6] {
        let says = match (&self.error, self.usable) {
            (Some(error), _) => error.clone(),
            (None, true) => "usable".to_owned(),
            (None, false) => "none".to_owned(),
        };
        [
            self.contract.clone(),
            self.block.to_string(),
            source(record),
            self.size.map_or("-".to_owned(), |size| grouped(size as u64)),
            self.sha256.as_ref().map_or("-".to_owned(), |sum| sum[..8].to_owned()),
            says,
        ]
    }
}

/// Where a version comes from, in words.
fn source(record: &Record) -> String {
    match (record.source, &record.version) {
        (Source::Setabi, Some(version)) => format!("setabi {}", version.since.sequence),
        (Source::Before, _) => "before the block".to_owned(),
        (Source::End, _) => "row at its end".to_owned(),
        (Source::ChainApi, _) => "chain API".to_owned(),
        (Source::Plain, _) => "plain base64".to_owned(),
        _ => "unreadable".to_owned(),
    }
}
