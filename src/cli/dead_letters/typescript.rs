//! The spellings of the TypeScript version: `list-dead-letters` and `replay-dead-letter`.

use clap::Args;

use super::{FilterArgs, ListArgs, ReplayArgs, SubscriptionArg};
use crate::cli::namespace::{ConfigArg, JsonArg};
use crate::dead_letters::PARSER;
use crate::publish::EntryId;

/// `parser list-dead-letters`
#[derive(Debug, Args)]
pub struct ListDeadLettersArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Whose dead letters
    #[arg(long, value_name = "SUB", default_value = PARSER)]
    sub_id: String,
    /// Those of all subscriptions
    #[arg(long)]
    all: bool,
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u64,
    /// Not those before this entry
    #[arg(long, value_name = "ENTRY")]
    from: Option<EntryId>,
    /// As JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// `parser replay-dead-letter`
#[derive(Debug, Args)]
pub struct ReplayDeadLetterArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Whose dead letters
    #[arg(long, value_name = "SUB", default_value = PARSER)]
    sub_id: String,
    /// The event
    #[arg(long, alias = "dl-id", value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    event_id: Option<String>,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
}

impl From<ListDeadLettersArgs> for ListArgs {
    fn from(args: ListDeadLettersArgs) -> ListArgs {
        ListArgs {
            config: args.config,
            subscription: SubscriptionArg { sub: args.sub_id },
            all_subs: args.all,
            filter: FilterArgs::default(),
            limit: Some(args.limit),
            json: args.json,
            first: args.from,
        }
    }
}

impl From<ReplayDeadLetterArgs> for ReplayArgs {
    fn from(args: ReplayDeadLetterArgs) -> ReplayArgs {
        ReplayArgs {
            config: args.config,
            subscription: SubscriptionArg { sub: args.sub_id },
            ids: args.event_id.into_iter().collect(),
            filter: FilterArgs::default(),
            all: args.all,
            dry_run: args.dry_run,
            json: JsonArg { json: false },
        }
    }
}
