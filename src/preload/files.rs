//! From files: a directory with an ABI a contract, or lines of JSON with blocks.

use std::fs;
use std::io::BufRead;
use std::path::Path;

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use serde::Deserialize;
use serde_json::Value;

use super::Outcome;
use crate::abi::{Deserializer, file};
use crate::hex;
use crate::history::{Says, Since, Version, put};
use crate::keys::Keys;
use crate::name::Name;

/// How the files of a directory end.
const ENDINGS: [&str; 3] = ["abi", "json", "hex"];

/// Reads `CONTRACT.abi`, `CONTRACT.json` and `CONTRACT.hex`, in any form, whatever the ending says. Their ABIs are in force before
/// all that is learned from blocks; contracts with a history are left alone, unless their oldest version is one without block and
/// `replace` is given. `failed` is told of files that cannot be used.
pub async fn directory(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    folder: &Path,
    replace: bool,
    mut failed: impl FnMut(String),
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if ENDINGS.contains(&ending) {
            files.push(path);
        }
    }
    files.sort();
    for path in files {
        match from_file(&path) {
            Ok((contract, abi)) => {
                outcome.count(put::preload_current(connection, keys, contract, &abi, replace).await?);
            }
            Err(error) => {
                outcome.failed += 1;
                failed(format!("{}: {error:#}", path.display()));
            }
        }
    }
    Ok(outcome)
}

fn from_file(path: &Path) -> Result<(Name, Vec<u8>)> {
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let contract = name.parse()?;
    let abi = file::read(&fs::read(path)?)?;
    usable(&abi)?;
    Ok((contract, abi))
}

/// Whether the parser could decode with it; "no ABI" can be meant only where it is said in so many words.
fn usable(abi: &[u8]) -> Result<()> {
    let version = Version::new(Since::CHAIN_API, abi);
    match version.says(Deserializer::Compiled) {
        Says::Bad(bad) => anyhow::bail!("no ABI that can be used: {bad}"),
        Says::None => anyhow::bail!("there is no ABI in it"),
        Says::Abi(_) => Ok(()),
    }
}

/// A line: the ABI that an account had at the end of a block.
#[derive(Deserialize)]
struct Line {
    account: String,
    block: u32,
    /// JSON, or base64; `null` or empty for none.
    #[serde(default)]
    abi: Option<Value>,
    #[serde(default)]
    abi_hex: Option<String>,
}

/// Reads lines of `{account, block, abi | abi_hex}`, in any order of blocks: the ABI holds from the end of that block on, as one
/// learned from an account's row does.
pub async fn lines(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    input: impl BufRead,
    mut progress: impl FnMut(u64, Option<String>),
) -> Result<Outcome> {
    let seen = put::seen(connection, keys).await?;
    let mut outcome = Outcome::default();
    let mut number = 0;
    for line in input.lines() {
        number += 1;
        let line = line.with_context(|| format!("line {number}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = match from_line(&line) {
            Ok((contract, version)) => {
                let block = version.since.block;
                let done = put::preload(connection, keys, &[(contract, version)], seen).await?;
                done.iter().for_each(|done| outcome.count(*done));
                done.contains(&put::Preloaded::Contradicts).then(|| {
                    format!(
                        "{contract}: the parser has read block {block} itself and knows another ABI: left out"
                    )
                })
            }
            Err(error) => {
                outcome.failed += 1;
                Some(format!("{error:#}"))
            }
        };
        progress(number, wrong.map(|wrong| format!("line {number}: {wrong}")));
    }
    Ok(outcome)
}

fn from_line(line: &str) -> Result<(Name, Version)> {
    let line: Line = serde_json::from_str(line)?;
    let contract = line.account.parse::<Name>()?;
    let abi = match (line.abi_hex, line.abi) {
        (Some(digits), _) => {
            hex::parse(&digits).context("`abi_hex` is no even number of hexadecimal digits")?
        }
        (None, Some(Value::Null)) => Vec::new(),
        (None, Some(Value::String(text))) => file::read(text.as_bytes())?,
        (None, Some(abi)) => file::from_json(&abi.to_string())?,
        (None, None) => anyhow::bail!("neither `abi` nor `abi_hex` is there"),
    };
    Ok((contract, Version::new(Since { block: line.block, sequence: Since::END }, &abi)))
}
