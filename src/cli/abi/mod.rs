//! `parser abi`: the history of the contracts' ABIs.

mod check;
mod preload;
mod versions;

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::namespace::{ConfigArg, JsonArg, Namespace};
use super::table::{Column, Table, bytes, grouped, print_json};
use super::{block_on, contract};
use crate::abi::{Deserializer, file};
use crate::hex;
use crate::history::{Says, Since, Version, prune, put, record};
use crate::name::Name;

pub use check::CheckAbisArgs;
pub use preload::{PreloadArgs, SourceArg};
pub use versions::{ListAbisArgs, ShowAbiArgs};

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

/// `parser abi put`
#[derive(Debug, Args)]
pub struct PutAbiArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// The contract
    #[arg(value_name = "CONTRACT", value_parser = contract)]
    contract: Name,
    /// From which block on it is in force
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
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
    #[arg(value_name = "CONTRACT", value_parser = contract)]
    contracts: Vec<Name>,
    /// The same, as the TypeScript version spells it
    #[arg(long = "contract", value_name = "CONTRACT", hide = true, value_parser = contract)]
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

pub(super) fn run(command: AbiCommand) -> Result<()> {
    match command {
        AbiCommand::List(args) => versions::list(args),
        AbiCommand::Show(args) => versions::show(args),
        AbiCommand::Put(args) => put(args),
        AbiCommand::Prune(args) => prune(args),
        AbiCommand::Preload(args) => preload::run(args),
        AbiCommand::Check(args) => check::check(args),
    }
}

/// Those asked for, or all there are. What lies among the histories and is none is named by `check`.
async fn contracts(namespace: &mut Namespace, asked: Vec<Name>) -> Result<Vec<Name>> {
    if !asked.is_empty() {
        return Ok(asked);
    }
    Ok(record::contracts(&mut namespace.connection, &namespace.keys).await?.0)
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
