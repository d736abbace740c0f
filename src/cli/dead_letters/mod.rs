//! `parser dead-letters`: what could not be decoded, looked at and mended.

mod list;
mod purge;
mod replay;
mod show;
mod typescript;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};

use super::namespace::{ConfigArg, JsonArg, Namespace};
use super::table::printable;
use super::{block_on, contract, reader_may_leave};
use crate::config::ConfigError;
use crate::dead_letters::{Letters, PARSER, Select};
use crate::event::Reason;
use crate::name::Name;
use crate::publish::EntryId;

pub use typescript::{ListDeadLettersArgs, ReplayDeadLetterArgs};

/// `parser dead-letters`
#[derive(Debug, Subcommand)]
pub enum DeadLettersCommand {
    /// List dead letters, oldest first
    List(ListArgs),
    /// Show all there is about one, and what decoding it now would give
    Show(ShowArgs),
    /// Decode dead letters again, and publish those that can be decoded now
    ///
    /// With the ABI history and the overrides as they are now. An event is published under its own event id, with
    /// `"replayed":true` as its last field, and its dead letter and counter are removed with it. What still fails stays. The
    /// running parser publishes them, or this command where none runs.
    Replay(ReplayArgs),
    /// Remove dead letters and their counters
    ///
    /// Asks first at a terminal; elsewhere it only says how many they are, unless told --yes.
    Purge(PurgeArgs),
}

/// `parser dead-letters list`
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    config: ConfigArg,
    #[command(flatten)]
    subscription: SubscriptionArg,
    /// Those of all subscriptions
    #[arg(long, conflicts_with = "sub")]
    all_subs: bool,
    #[command(flatten)]
    filter: FilterArgs,
    /// So many at most [default: 100 in a table, all with --json]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// As JSON, one object a line
    #[arg(long)]
    json: bool,
    /// None before this one.
    #[arg(skip)]
    first: Option<EntryId>,
}

/// `parser dead-letters show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    config: ConfigArg,
    #[command(flatten)]
    subscription: SubscriptionArg,
    /// Its entry id or its event's id
    id: String,
    #[command(flatten)]
    json: JsonArg,
}

/// `parser dead-letters replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    config: ConfigArg,
    #[command(flatten)]
    subscription: SubscriptionArg,
    #[command(flatten)]
    which: WhichArgs,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// `parser dead-letters purge`
#[derive(Debug, Args)]
pub struct PurgeArgs {
    #[command(flatten)]
    config: ConfigArg,
    #[command(flatten)]
    subscription: SubscriptionArg,
    #[command(flatten)]
    which: WhichArgs,
    /// Only of blocks before this one
    #[arg(long, value_name = "BLOCK")]
    older_than_block: Option<u32>,
    /// Remove them without asking
    #[arg(long)]
    yes: bool,
}

/// Whose dead letters.
#[derive(Debug, Clone, Args)]
struct SubscriptionArg {
    /// Whose dead letters: the parser's own, or those of a consumer's subscription
    #[arg(long, value_name = "NAME", default_value = PARSER)]
    sub: String,
}

/// Which of them something is to be done with: it must be said in one way at least.
#[derive(Debug, Clone, Args)]
struct WhichArgs {
    /// Entry ids of dead letters, or ids of their events
    ids: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// All of them
    #[arg(long)]
    all: bool,
}

/// Which of them.
#[derive(Debug, Clone, Default, Args)]
struct FilterArgs {
    /// Only with this reason
    #[arg(long, value_name = "REASON", value_parser = Reason::ALL.map(Reason::as_str))]
    reason: Option<String>,
    /// Only of this contract
    #[arg(long, value_name = "NAME", value_parser = contract)]
    contract: Option<Name>,
    /// Only of this block or later ones
    #[arg(long, value_name = "BLOCK")]
    from: Option<u32>,
    /// Only of this block or earlier ones
    #[arg(long, value_name = "BLOCK")]
    to: Option<u32>,
}

// === impl WhichArgs ===

impl WhichArgs {
    /// Those meant, `older_than` (the option `--older-than-block`, where there is one) included.
    fn select(&self, older_than: Option<u32>, options: &str) -> Result<Select, ConfigError> {
        let mut ids = self.ids.clone();
        ids.sort();
        ids.dedup();
        let mut select = Select { ids, ..self.filter.select()? };
        if let Some(block) = older_than {
            let Some(below) = block.checked_sub(1) else {
                return Err(ConfigError::new("--older-than-block 0: no block is older"));
            };
            select.to = Some(select.to.map_or(below, |to| to.min(below)));
        }
        match (select.is_all(), self.all) {
            (true, false) => Err(ConfigError::new(format!(
                "which dead letters? Give their ids, a filter ({options}), or --all"
            ))),
            (false, true) => Err(ConfigError::new("--all goes with neither ids nor filters")),
            _ => Ok(select),
        }
    }
}

// === impl FilterArgs ===

impl FilterArgs {
    fn select(&self) -> Result<Select, ConfigError> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from > to
        {
            return Err(ConfigError::new(format!("--from {from} is above --to {to}")));
        }
        Ok(Select {
            ids: Vec::new(),
            reason: self.reason.clone(),
            contract: self.contract.map(|name| name.to_string()),
            from: self.from,
            to: self.to,
        })
    }
}

pub(super) fn run(command: DeadLettersCommand) -> Result<()> {
    match command {
        DeadLettersCommand::List(args) => reader_may_leave(block_on(list::list(&args))),
        DeadLettersCommand::Show(args) => reader_may_leave(block_on(show::show(&args))),
        DeadLettersCommand::Replay(args) => block_on(replay::replay(&args)),
        DeadLettersCommand::Purge(args) => reader_may_leave(block_on(purge::purge(&args))),
    }
}

pub(super) fn list_dead_letters(args: ListDeadLettersArgs) -> Result<()> {
    run(DeadLettersCommand::List(args.into()))
}

pub(super) fn replay_dead_letter(args: ReplayDeadLetterArgs) -> Result<()> {
    run(DeadLettersCommand::Replay(args.into()))
}

/// Letters named by their ids that are not there.
fn none_such(subscription: &str, ids: &[String]) -> anyhow::Error {
    let subscription = printable(subscription);
    match ids {
        [id] => anyhow!(
            "`{subscription}` has no dead letter `{}`: an entry id (`1234-5`) or an event's id is expected",
            printable(id)
        ),
        _ => anyhow!("`{subscription}` does not have all of these dead letters (`dead-letters list`)"),
    }
}

/// The letters of a subscription.
fn letters(namespace: &Namespace, subscription: &str) -> Letters {
    Letters::new(namespace.connection.clone(), &namespace.keys, namespace.chain_id, subscription)
}
