//! `parser dead-letters replay`

use std::io::{self, Write};

use anyhow::{Result, bail};

use super::super::progress::Counter;
use super::super::table::{Column, Table, print_json, printable};
use super::super::{log_to_people, reader_may_leave};
use super::{ReplayArgs, letters, none_such};
use crate::dead_letters::{Again, NATIVE, Replay, Requests, Tally};
use crate::pipeline::{Alone, ReplayServer, RunError};
use crate::publish::Failure;
use crate::shutdown::Shutdown;

pub(super) async fn replay(args: &ReplayArgs) -> Result<()> {
    let select = args.which.select(None, "--reason, --contract, --from, --to")?;
    let namespace = args.config.open().await?;
    log_to_people()?;
    let shutdown = Shutdown::on_signals()?;
    let subscription = args.subscription.sub.as_str();
    let mut letters = letters(&namespace, subscription);
    let connection = namespace.connection.clone();
    let keys = &namespace.keys;
    let mut again =
        Again::new(&namespace.config, connection.clone(), keys, namespace.chain_id, subscription).await?;
    let mut counter = Counter::new("replaying", select.is_all().then_some(letters.count().await?));
    let progress = |tally: &Tally| counter.at(tally.letters, &format!("{} published", tally.published));
    let mut requests = (!args.dry_run).then(|| Requests::new(connection, keys.clone()));
    let replay = Replay {
        letters: &mut letters,
        subscription,
        again: &mut again,
        requests: requests.as_mut(),
        shutdown: &shutdown,
    };
    let tally = if args.dry_run {
        replay.run(&select, progress).await?
    } else {
        let alone = Alone::new(&namespace.config, keys, namespace.chain_id)?;
        let replayed = tokio::select! {
            tally = replay.run(&select, progress) => tally.map_err(anyhow::Error::from),
            failure = alone.serve(tell) => Err(serving_failed(failure)),
        };
        alone.release().await;
        replayed?
    };
    counter.finish();
    reader_may_leave(match args.json.json {
        true => print_json(&tally).map_err(Into::into),
        false => print(&tally, args.dry_run),
    })?;
    if tally.stopped {
        bail!("stopped: what was not published yet is still among the dead letters");
    }
    if !select.ids.is_empty() {
        let done = if args.dry_run { tally.decoded } else { tally.published };
        if tally.letters < select.ids.len() as u64 {
            return Err(none_such(subscription, &select.ids));
        }
        if done < tally.letters {
            bail!("not all of these dead letters can be published now");
        }
    }
    Ok(())
}

fn tell(server: ReplayServer) {
    let _ = match server {
        ReplayServer::Parser(token) => {
            writeln!(io::stderr(), "the running parser ({}) publishes them", printable(&token))
        }
        ReplayServer::This => writeln!(io::stderr(), "no parser is running: they are published from here"),
    };
}

fn serving_failed(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Unfit(text) => RunError::Unfit(text).into(),
        failure => failure.into(),
    }
}

fn print(tally: &Tally, dry_run: bool) -> Result<()> {
    let Tally { letters, decoded, published, unpublished, native, undone, filtered, unfit, .. } = tally;
    let mut out = io::stdout().lock();
    match dry_run {
        true => {
            writeln!(out, "{decoded} of {letters} dead letters would be published (nothing was changed)")?
        }
        false => writeln!(out, "{published} of {letters} dead letters are published")?,
    }
    let mut line = |count: u64, what: &str| match count {
        0 => Ok(()),
        _ => writeln!(out, "{count} {what}"),
    };
    line(*unpublished, "were not: their block was undone meanwhile, or the command was stopped")?;
    line(*native, &format!("cannot be decoded again: {NATIVE}"))?;
    line(*undone, "are of blocks that a fork has undone: they are not published any more")?;
    line(*filtered, "are such as the configuration does not publish")?;
    let why = tally.unfit_reason.as_deref().map(|why| format!(": {}", printable(why))).unwrap_or_default();
    line(*unfit, &format!("cannot be published{why}"))?;
    line(tally.still.values().sum(), "cannot be decoded now either:")?;
    drop(out);
    if !tally.still.is_empty() {
        let mut table =
            Table::new(&[Column::Text("reason"), Column::Text("contract"), Column::Number("letters")]);
        for ((reason, contract), letters) in &tally.still {
            table.row([reason.as_str(), contract.as_str(), &letters.to_string()]);
        }
        table.print()?;
    }
    Ok(())
}
