//! The report in Redis (`NS:state:CHAIN`), and what is looked up there to be shown. On a connection of its own: neither
//! waits for the pipeline nor keeps it waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::{LookedUp, Monitor, lock};
use crate::config::Config;
use crate::keys::Keys;
use crate::publish::{Failure, Server, startup};
use crate::state::{FAILED_TTL_MS, REPORT_TTL_MS, Report, State};
use crate::status;

/// The report is renewed so often; a change of the state goes out at once.
const RENEW: Duration = Duration::from_secs(5);
/// Redis may take so long over it.
const LIMIT: Duration = Duration::from_secs(3);
/// At the end, this long.
const LAST_LIMIT: Duration = Duration::from_secs(1);

/// Where reports go.
#[derive(Debug, Clone)]
pub struct Target {
    server: Server,
    namespace: String,
    key_prefix: String,
}

// === impl Target ===

impl Target {
    /// The Redis of the configuration.
    pub fn new(config: &Config, server: Server) -> Target {
        Target {
            server,
            namespace: config.redis.namespace.clone(),
            key_prefix: config.redis.key_prefix.clone(),
        }
    }

    /// The keys, once the chain is known: from the node, or from what was published before.
    async fn keys(
        &self,
        monitor: &Monitor,
        connection: &mut MultiplexedConnection,
    ) -> Result<Option<Keys>, Failure> {
        let chain = match monitor.chain_id() {
            Some(chain) => Some(chain),
            None => {
                let key = Keys::chain_of(&self.namespace, &self.key_prefix);
                startup::chain(connection, &key).await?
            }
        };
        Ok(chain.map(|chain| Keys::new(&self.namespace, &chain, &self.key_prefix)))
    }
}

/// Keeps the report up to date and looks things up, for ever.
pub async fn run(monitor: Arc<Monitor>, target: Target) {
    let mut connection = None;
    let mut state = monitor.state();
    loop {
        let round = timeout(LIMIT, round(&monitor, &target, &mut connection)).await;
        let failure = match round {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some(failure.to_string()),
            Err(_) => Some(format!("no answer within {} seconds", LIMIT.as_secs())),
        };
        if let Some(reason) = failure {
            // The pipeline says what there is to say of a Redis that fails.
            debug!(reason, "the report could not be written to Redis");
            connection = None;
            // What was seen before is not how it is now.
            let refused = lock(&monitor.looked_up).refused;
            *lock(&monitor.looked_up) = LookedUp { refused, ..LookedUp::default() };
        }
        tokio::select! {
            () = sleep(RENEW) => {}
            _ = state.changed() => {}
        }
    }
}

async fn round(
    monitor: &Monitor,
    target: &Target,
    connection: &mut Option<MultiplexedConnection>,
) -> Result<(), Failure> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(target.server.connect_control().await?),
    };
    let Some(keys) = target.keys(monitor, connection).await? else { return Ok(()) };
    write(monitor, &keys, connection, REPORT_TTL_MS).await?;
    let dead_letters = redis::cmd("XLEN").arg(&keys.dead_parser).query_async(connection).await?;
    // Without permission for it all else goes on.
    let groups = match status::groups(connection, &keys).await {
        Err(failure) if !failure.is_transient() => {
            if !lock(&monitor.looked_up).refused {
                warn!(reason = %failure, "the consumer groups cannot be looked at: neither metrics nor page show them");
            }
            None
        }
        groups => Some(groups?),
    };
    let refused = groups.is_none();
    *lock(&monitor.looked_up) =
        LookedUp { groups: groups.unwrap_or_default(), dead_letters: Some(dead_letters), refused };
    Ok(())
}

/// Writes the report, unless another parser's stands there and this one does not hold the lease: it may tell of what Redis has
/// lost (see `pipeline::resume`).
async fn write(
    monitor: &Monitor,
    keys: &Keys,
    connection: &mut MultiplexedConnection,
    ttl_ms: u64,
) -> Result<(), Failure> {
    let report = monitor.report();
    if !monitor.leading.load(Relaxed) {
        if report.state == State::Standby {
            return Ok(());
        }
        if let Some(found) = Report::load(connection, keys).await?
            && found.instance != report.instance
            && (found.state != State::Failed || found.block.is_some())
        {
            return Ok(());
        }
    }
    let Ok(text) = serde_json::to_string(&report) else { return Ok(()) };
    redis::cmd("SET").arg((&keys.state, text, "PX", ttl_ms)).exec_async(connection).await?;
    Ok(())
}

/// The last word: why it failed, to be read for a day; or nothing, after an end in good order, or where it has never published
/// anything and so leaves no trace. Redis may be what failed.
pub async fn last(monitor: &Monitor, target: &Target) {
    let last = async {
        let mut connection = target.server.connect_control().await?;
        let Some(keys) = target.keys(monitor, &mut connection).await? else { return Ok(()) };
        if monitor.led.load(Relaxed) && monitor.state().borrow().state == State::Failed {
            return write(monitor, &keys, &mut connection, FAILED_TTL_MS).await;
        }
        if let Some(found) = Report::load(&mut connection, &keys).await?
            && found.instance == monitor.instance()
        {
            redis::cmd("DEL").arg(&keys.state).exec_async(&mut connection).await?;
        }
        Ok::<_, Failure>(())
    };
    match timeout(LAST_LIMIT, last).await {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => debug!(reason = %failure, "the last report could not be written to Redis"),
        Err(_) => debug!("no answer from Redis to the last report"),
    }
}
