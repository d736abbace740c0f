//! `parser abi`: the history of the contracts' ABIs.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::abi_preload::{self, PreloadArgs};
use super::block_on;
use super::namespace::{ConfigArg, JsonArg, Namespace};
use super::progress::Counter;
use super::table::{Column, Table, bytes, grouped, print_json, print_json_line, printable};
use crate::abi::{Deserializer, file};
use crate::hex;
use crate::history::check::{self, Findings};
use crate::history::record::{self, Record, Source};
use crate::history::{Says, Since, Version, prune, put};
use crate::name::Name;

/// `parser abi`
#[derive(Debug, Subcommand)]
pub enum AbiCommand {
    /// List the versions of all contracts, or of some
    List(ListAbisArgs),
    /// Print the ABI that a contract has, or had at the end of a block
    Show(ShowAbiArgs),
    /// Put a version into a contract's history
    ///
    /// It is in force from before block N's first action, whatever was learned from the blocks, until the next version in the
    /// history. A running parser takes notice within seconds, for blocks it has not read yet; what is published already
    /// stays as it is (`dead-letters replay` decodes again what could not be decoded). A fork that takes block N back
    /// can take the version with it.
    Put(PutAbiArgs),
    /// Remove versions that nothing needs any more
    ///
    /// Needed are, of each contract, the versions of the oldest block that is in the stream, among the dead letters or can still be
    /// undone, and later ones; the newest before that block; and the last one with other bytes before that, in whose layout
    /// rows may still be.
    Prune(PruneAbisArgs),
    /// Fill the history from the chain API, from files or from a node's account rows
    Preload(PreloadArgs),
    /// Look for versions that cannot be used and for missing ones; exit status 1 if there are any
    Check(CheckAbisArgs),
}

/// `parser abi list`
#[derive(Debug, Args)]
pub struct ListAbisArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Only these contracts
    #[arg(value_name = "CONTRACT")]
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
    #[arg(value_name = "CONTRACT")]
    contract: Name,
    /// The version in force at the end of this block; default: the newest
    #[arg(long, value_name = "BLOCK")]
    at: Option<u32>,
    #[command(flatten)]
    output: JsonArg,
}

/// `parser abi put`
#[derive(Debug, Args)]
pub struct PutAbiArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// The contract
    #[arg(value_name = "CONTRACT")]
    contract: Name,
    /// From which block on it is in force
    #[arg(long, value_name = "N")]
    block: u32,
    /// The ABI: packed, as hexadecimal digits, base64 or JSON; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Also an ABI that cannot be used, none at all (an empty file), or in the place of another one
    #[arg(long)]
    force: bool,
}

/// `parser abi prune`
#[derive(Debug, Args)]
pub struct PruneAbisArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Only these contracts
    #[arg(value_name = "CONTRACT")]
    contracts: Vec<Name>,
    /// The same, as the TypeScript version spells it
    #[arg(long = "contract", value_name = "CONTRACT", hide = true)]
    contract: Option<Name>,
    /// All contracts: what happens anyway, for the TypeScript version's spelling
    #[arg(long, hide = true)]
    all_contracts: bool,
    /// Keep more than is needed: all versions of this block and later ones
    #[arg(long, value_name = "BLOCK")]
    older_than: Option<u32>,
    /// Tell what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: JsonArg,
}

/// `parser abi check`
#[derive(Debug, Args)]
pub struct CheckAbisArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Only these contracts
    #[arg(value_name = "CONTRACT")]
    contracts: Vec<Name>,
    /// Compare also with the receipts of all actions in the stream, which count their contract's ABIs; reads the whole stream
    #[arg(long)]
    stream: bool,
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

pub(super) fn run(command: AbiCommand) -> Result<()> {
    match command {
        AbiCommand::List(args) => list(args),
        AbiCommand::Show(args) => show(args),
        AbiCommand::Put(args) => put(args),
        AbiCommand::Prune(args) => prune(args),
        AbiCommand::Preload(args) => abi_preload::run(args),
        AbiCommand::Check(args) => check(args),
    }
}

/// Those asked for, or all there are. What lies among the histories and is none is named by `check`.
async fn contracts(namespace: &mut Namespace, asked: Vec<Name>) -> Result<Vec<Name>> {
    if !asked.is_empty() {
        return Ok(asked);
    }
    Ok(record::contracts(&mut namespace.connection, &namespace.keys).await?.0)
}

fn list(args: ListAbisArgs) -> Result<()> {
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

fn show(args: ShowAbiArgs) -> Result<()> {
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

fn put(args: PutAbiArgs) -> Result<()> {
    let shown = args.file.display();
    let contents = contents(&args.file).with_context(|| shown.to_string())?;
    let abi = file::read(&contents).with_context(|| shown.to_string())?;
    let (contract, block, force) = (args.contract, args.block, args.force);
    let version = Version::new(Since { block, sequence: Since::BEFORE }, &abi);
    match version.says(Deserializer::Compiled) {
        Says::Bad(bad) if !force => {
            bail!(
                "{shown} is no ABI that can be used: {bad}. With --force it is put all the same: the contract's data is then published undecoded"
            )
        }
        Says::None if !force => {
            bail!(
                "{shown} is empty. With --force it means that the contract has no ABI from block {block} on"
            )
        }
        _ => {}
    }
    block_on(async {
        let mut namespace = args.config.open().await?;
        let (connection, keys) = (&mut namespace.connection, &namespace.keys);
        put::claim(connection, keys, &namespace.chain_id).await?;
        let there = put::put(connection, keys, contract, block, &abi, force).await?;
        let until = record::next_block(connection, keys, contract, block).await?;
        let mut out = io::stdout().lock();
        let was = if there { "was there already: " } else { "" };
        let until = match until {
            Some(until) => format!(" until block {until}, which has a version of its own"),
            None => String::new(),
        };
        writeln!(
            out,
            "{contract}: {was}an ABI of {} (sha256 {}…) is in force from block {block}{until}.",
            bytes(abi.len() as u64),
            hex::lower(&Sha256::digest(&abi)[..4])
        )?;
        Ok(())
    })
}

fn contents(file: &Path) -> io::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut contents = Vec::new();
        io::stdin().read_to_end(&mut contents)?;
        return Ok(contents);
    }
    fs::read(file)
}

pub(super) fn prune(args: PruneAbisArgs) -> Result<()> {
    block_on(async {
        let mut namespace = args.config.open().await?;
        let asked = args.contracts.into_iter().chain(args.contract).collect();
        let contracts = contracts(&mut namespace, asked).await?;
        let (connection, keys) = (&mut namespace.connection, &namespace.keys);
        let Some(floor) = prune::floor(connection, keys).await? else {
            bail!("nothing is published here yet: no version can be told to be of no use")
        };
        let block = args.older_than.map_or(floor.block, |older_than| older_than.min(floor.block));
        let mut all = prune::prune(connection, keys, &contracts, block, args.dry_run).await?;
        all.retain(|pruned| pruned.removed > 0);
        if args.output.json {
            #[derive(Serialize)]
            struct Document<'a> {
                block: u32,
                needed: &'a prune::Floor,
                dry_run: bool,
                contracts: &'a [prune::Pruned],
            }
            return Ok(print_json(&Document {
                block,
                needed: &floor,
                dry_run: args.dry_run,
                contracts: &all,
            })?);
        }
        let mut table = Table::new(&[
            Column::Text("contract"),
            Column::Number(if args.dry_run { "would go" } else { "removed" }),
            Column::Number("kept"),
            Column::Number("size"),
        ]);
        for pruned in &all {
            table.row([
                pruned.contract.clone(),
                grouped(pruned.removed),
                grouped(pruned.kept),
                bytes(pruned.bytes),
            ]);
        }
        if !table.is_empty() {
            table.print()?;
            writeln!(io::stdout())?;
        }
        let (count, size) =
            all.iter().fold((0, 0), |(count, size), pruned| (count + pruned.removed, size + pruned.bytes));
        let would = if args.dry_run { "would be removed" } else { "removed" };
        writeln!(
            io::stdout(),
            "{} versions {would}, {}. Needed are those of block {} ({}) and later.",
            grouped(count),
            bytes(size),
            floor.block,
            floor.because
        )?;
        if block < floor.block {
            writeln!(io::stdout(), "As asked, all of block {block} and later stayed.")?;
        }
        Ok(())
    })
}

fn check(args: CheckAbisArgs) -> Result<()> {
    block_on(async {
        let mut namespace = args.config.open().await?;
        let mut findings = Findings::default();
        let all = args.contracts.is_empty();
        let (connection, keys) = (&mut namespace.connection, &namespace.keys);
        let (names, foreign) = match all {
            true => record::contracts(connection, keys).await?,
            false => (args.contracts, Vec::new()),
        };
        for key in foreign {
            findings.problems.push(check::Problem {
                contract: key,
                block: 0,
                kind: check::Kind::Unreadable,
                message: "the key names no contract".to_owned(),
            });
        }
        check::versions(connection, keys, &names, &mut findings).await?;
        if args.stream {
            let entries: u64 = redis::cmd("XLEN").arg(&keys.events).query_async(connection).await?;
            let mut counter = Counter::new("reading the stream", Some(entries));
            check::receipts(connection, keys, &mut findings, |seen| counter.at(seen, "")).await?;
            counter.finish();
            if !all {
                findings
                    .problems
                    .retain(|problem| names.iter().any(|name| name.to_string() == problem.contract));
            }
        }
        findings.problems.sort();
        if args.output.json {
            print_json(&findings)?;
        } else {
            report(&findings, args.stream)?;
        }
        match findings.problems.len() {
            0 => Ok(()),
            1 => bail!("1 problem in the ABI history"),
            count => bail!("{} problems in the ABI history", grouped(count as u64)),
        }
    })
}

fn report(findings: &Findings, stream: bool) -> io::Result<()> {
    let mut table = Table::new(&[Column::Text("contract"), Column::Number("block"), Column::Text("problem")]);
    for problem in &findings.problems {
        table.row([problem.contract.as_str(), &problem.block.to_string(), &problem.message]);
    }
    if !table.is_empty() {
        table.print()?;
        writeln!(io::stdout())?;
    }
    let receipts = match stream {
        true => format!("; {} receipts compared", grouped(findings.receipts)),
        false => String::new(),
    };
    writeln!(
        io::stdout(),
        "{} versions of {} contracts looked at{receipts}.",
        grouped(findings.versions),
        grouped(findings.contracts)
    )
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
