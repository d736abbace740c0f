//! Changes to the history from outside, and how the running parser notices them: a counter in Redis, looked at every second
//! beside the blocks, so that these wait for nothing.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::keys::Keys;
use crate::publish::{Failure, Server};

/// The counter is looked at so often.
const INTERVAL: Duration = Duration::from_secs(1);

/// Follows the counter until dropped. While Redis does not answer nothing is noticed; the writer says that.
pub async fn follow(server: Server, keys: Keys, edits: watch::Sender<u64>) {
    let (mut connection, mut first) = (None, true);
    loop {
        match look(&mut connection, &server, &keys).await {
            Ok(count) => {
                let changed = edits.send_if_modified(|known| std::mem::replace(known, count) != count);
                if changed && !first {
                    info!(
                        "the ABI history was changed from outside: what is read from now on is decoded with it"
                    );
                }
                first = false;
            }
            Err(failure) if failure.is_transient() => connection = None,
            Err(failure) => {
                warn!(key = keys.abi_edits, reason = %failure, "changes made to the ABI history by commands are not noticed");
                return;
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn look(
    connection: &mut Option<MultiplexedConnection>,
    server: &Server,
    keys: &Keys,
) -> Result<u64, Failure> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(server.connect_control().await?),
    };
    let count: Option<u64> = redis::cmd("GET").arg(&keys.abi_edits).query_async(connection).await?;
    Ok(count.unwrap_or(0))
}
