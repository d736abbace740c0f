//! `parser dead-letters`: what could not be decoded, looked at and mended.

mod list;
mod show;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::namespace::{ConfigArg, JsonArg, Namespace};
use super::{block_on, reader_may_leave};
use crate::dead_letters::{Letters, PARSER, Select};

/// `parser dead-letters`
#[derive(Debug, Subcommand)]
pub enum DeadLettersCommand {
    /// List dead letters, oldest first
    List(ListArgs),
    /// Show all there is about one, and what decoding it now would give
    Show(ShowArgs),
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

/// Whose dead letters.
#[derive(Debug, Clone, Args)]
struct SubscriptionArg {
    /// Whose dead letters: the parser's own, or those of a consumer's subscription
    #[arg(long, value_name = "NAME", default_value = PARSER)]
    sub: String,
}

/// Which of them.
#[derive(Debug, Clone, Args)]
struct FilterArgs {
    /// Only with this reason: no_abi, abi_unknown, bad_abi, unknown_type, truncated, invalid
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// Only of this contract
    #[arg(long, value_name = "NAME")]
    contract: Option<String>,
    /// Only of this block or later ones
    #[arg(long, value_name = "BLOCK")]
    from: Option<u32>,
    /// Only of this block or earlier ones
    #[arg(long, value_name = "BLOCK")]
    to: Option<u32>,
}

// === impl FilterArgs ===

impl FilterArgs {
    fn select(&self) -> Select {
        Select {
            ids: Vec::new(),
            reason: self.reason.clone(),
            contract: self.contract.clone(),
            from: self.from,
            to: self.to,
        }
    }
}

pub(super) fn run(command: DeadLettersCommand) -> Result<()> {
    match command {
        DeadLettersCommand::List(args) => reader_may_leave(block_on(list::list(&args))),
        DeadLettersCommand::Show(args) => reader_may_leave(block_on(show::show(&args))),
    }
}

/// The letters of a subscription.
fn letters(namespace: &Namespace, subscription: &str) -> Letters {
    Letters::new(namespace.connection.clone(), &namespace.keys, namespace.chain_id, subscription)
}
