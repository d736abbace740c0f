//! `parser subscriptions`: the stream's consumers.

use std::io::{self, Write};

use anyhow::Result;
use clap::{Args, Subcommand};

use super::block_on;
use super::namespace::{ConfigArg, JsonArg};
use super::table::{Column, Table, grouped, print_json, printable};
use crate::config::ConfigError;
use crate::subscriptions::{self, Subscription, Target};

/// `parser subscriptions`
#[derive(Debug, Subcommand)]
pub enum SubscriptionsCommand {
    /// List consumer groups and registered subscriptions, and how far each has come
    List(ListSubscriptionsArgs),
    /// Let a subscription go on elsewhere in the stream
    ///
    /// What its group was given and has not acknowledged is taken from it, and its failure counters are cleared: from
    /// the new place on every event comes, once; what lies before it does not come any more.
    Reset(ResetSubscriptionArgs),
    /// Remove a subscription: its group, its registration and its failure counters
    ///
    /// Its dead letters stay. Once the group is gone, nothing holds back trimming for it.
    Remove(RemoveSubscriptionArgs),
}

/// `parser subscriptions list`
#[derive(Debug, Args)]
pub struct ListSubscriptionsArgs {
    #[command(flatten)]
    config: ConfigArg,
    #[command(flatten)]
    output: JsonArg,
}

/// `parser subscriptions reset`
#[derive(Debug, Args)]
pub struct ResetSubscriptionArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// The subscription's name
    #[arg(value_name = "SUB", required_unless_present = "sub_id")]
    name: Option<String>,
    /// The same, as the TypeScript version spells it
    #[arg(long, value_name = "SUB", hide = true, conflicts_with = "name")]
    sub_id: Option<String>,
    #[command(flatten)]
    target: TargetArg,
    /// Also while a consumer holds the subscription's lock
    #[arg(long)]
    force: bool,
    /// Tell what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: JsonArg,
}

/// Where to.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct TargetArg {
    /// Go on with the first event of this block
    #[arg(long, value_name = "N")]
    to_block: Option<String>,
    /// Go on with the oldest event in the stream
    #[arg(long)]
    to_start: bool,
    /// Go on with the next event that is published
    #[arg(long)]
    to_end: bool,
}

/// `parser subscriptions remove`
#[derive(Debug, Args)]
pub struct RemoveSubscriptionArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// The subscription's name
    #[arg(value_name = "SUB")]
    name: String,
    /// Also while a consumer holds the subscription's lock
    #[arg(long)]
    force: bool,
}

pub(super) fn run(command: SubscriptionsCommand) -> Result<()> {
    match command {
        SubscriptionsCommand::List(args) => list(args),
        SubscriptionsCommand::Reset(args) => reset(args),
        SubscriptionsCommand::Remove(args) => remove(args),
    }
}

pub(super) fn list(args: ListSubscriptionsArgs) -> Result<()> {
    block_on(async {
        let mut namespace = args.config.open().await?;
        let all = subscriptions::list(&mut namespace.connection, &namespace.keys).await?;
        if args.output.json {
            return Ok(print_json(&all)?);
        }
        if all.is_empty() {
            writeln!(io::stdout(), "No subscription is registered, and no consumer group reads the stream.")?;
            return Ok(());
        }
        table(&all).print()?;
        Ok(())
    })
}

fn table(all: &[Subscription]) -> Table {
    let mut table = Table::new(&[
        Column::Text("subscription"),
        Column::Number("lag (blocks)"),
        Column::Number("pending"),
        Column::Number("dead letters"),
        Column::Text("read by"),
        Column::Text("filters"),
    ]);
    for subscription in all {
        let group = subscription.group.as_ref();
        table.row([
            subscription.name.clone(),
            group.map_or("no group".to_owned(), |group| grouped(group.lag_blocks)),
            group.map_or("-".to_owned(), |group| grouped(group.pending)),
            grouped(subscription.dead_letters),
            subscription.lock.clone().unwrap_or_else(|| "-".to_owned()),
            match subscription.filters() {
                filters if filters.is_empty() => "-".to_owned(),
                filters => filters.join(", "),
            },
        ]);
    }
    table
}

pub(super) fn reset(args: ResetSubscriptionArgs) -> Result<()> {
    let target = args.target.target(args.sub_id.is_some())?;
    let name = args.name.or(args.sub_id).unwrap_or_default();
    block_on(async {
        let mut namespace = args.config.open().await?;
        let stream_ids = namespace.config.stream_ids.into();
        let (connection, keys) = (&mut namespace.connection, &namespace.keys);
        let done =
            subscriptions::reset(connection, keys, stream_ids, &name, target, args.force, args.dry_run)
                .await?;
        if args.output.json {
            return Ok(print_json(&done)?);
        }
        let next = match done.first_block {
            Some(block) => format!("with block {block}"),
            None => "with what is published next".to_owned(),
        };
        let would = if args.dry_run { "would go on" } else { "goes on" };
        let mut out = io::stdout().lock();
        writeln!(out, "{} {would} {next} (behind entry {}).", printable(&name), done.id)?;
        if done.trimmed {
            writeln!(out, "Earlier blocks are no longer in the stream.")?;
        }
        if done.released > 0 {
            let were = if args.dry_run { "would be" } else { "were" };
            writeln!(out, "{} pending entries {were} taken from it.", grouped(done.released))?;
        }
        Ok(())
    })
}

fn remove(args: RemoveSubscriptionArgs) -> Result<()> {
    block_on(async {
        let mut namespace = args.config.open().await?;
        let (connection, keys) = (&mut namespace.connection, &namespace.keys);
        let removed = subscriptions::remove(connection, keys, &args.name, args.force).await?;
        let mut out = io::stdout().lock();
        writeln!(out, "{} is removed.", printable(&removed.name))?;
        if removed.dead_letters > 0 {
            writeln!(
                out,
                "Its {} dead letters are still in `{}`.",
                grouped(removed.dead_letters),
                keys.dead(&removed.name)
            )?;
        }
        Ok(())
    })
}

// === impl TargetArg ===

impl TargetArg {
    /// The TypeScript version says the end as `latest`, or as block 0.
    fn target(&self, typescript: bool) -> Result<Target, ConfigError> {
        match self.to_block.as_deref() {
            None if self.to_start => Ok(Target::Start),
            None => Ok(Target::End),
            Some("latest") => Ok(Target::End),
            Some("0") if typescript => Ok(Target::End),
            Some(text) => text.parse().map(Target::Block).map_err(|_| {
                ConfigError::new(format!("--to-block: `{text}` is no block number (--to-start and --to-end take the whole stream's)"))
            }),
        }
    }
}
