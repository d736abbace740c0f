//! From the chain API: the ABIs that accounts have now.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use futures_util::stream;
use redis::aio::MultiplexedConnection;

use super::Outcome;
use crate::chain_api::{ChainApi, RawAbi};
use crate::history::{put, record};
use crate::keys::Keys;
use crate::name::Name;
use crate::publish::Failure;
use crate::stream::Pages;

/// Questions under way at a time.
const QUESTIONS: usize = 8;

/// All contracts that this namespace has met: those with a history, and those among the dead letters.
pub async fn met(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Vec<Name>, Failure> {
    let (names, _) = record::contracts(connection, keys).await?;
    let mut met: BTreeSet<Name> = names.into_iter().collect();
    let mut letters = Pages::forward(&keys.dead_parser, "-");
    while let Some(page) = letters.next(connection).await? {
        let contracts = page.iter().filter_map(|letter| letter.get::<String>("contract"));
        met.extend(contracts.filter_map(|contract| contract.parse::<Name>().ok()));
    }
    Ok(met.into_iter().collect())
}

/// Asks for the ABI of each, and keeps it where the contract has no history. `progress` is told how many were asked for, and
/// what went wrong with one.
pub async fn preload(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    api: &ChainApi,
    contracts: Vec<Name>,
    replace: bool,
    mut progress: impl FnMut(u64, Option<String>),
) -> Result<Outcome, put::PutError> {
    let mut outcome = Outcome::default();
    let mut answers = stream::iter(contracts)
        .map(|contract| async move { (contract, api.raw_abi(contract).await) })
        .buffer_unordered(QUESTIONS);
    let mut asked = 0;
    while let Some((contract, answer)) = answers.next().await {
        asked += 1;
        let abi = match answer {
            Ok(RawAbi::Abi(abi)) => abi,
            Ok(RawAbi::None) => Vec::new(),
            Ok(RawAbi::UnknownAccount) => {
                outcome.failed += 1;
                progress(asked, Some(format!("{contract}: the chain has no such account")));
                continue;
            }
            Err(error) => {
                outcome.failed += 1;
                progress(asked, Some(format!("{contract}: {error}")));
                continue;
            }
        };
        outcome.count(put::preload_current(connection, keys, contract, &abi, replace).await?);
        progress(asked, None);
    }
    Ok(outcome)
}
