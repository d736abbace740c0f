//! The lease: one parser writes, others stand by.
//!
//! The token in `NS:writer:CHAIN` lives ten seconds and is renewed inside every transaction. Each transaction
//! WATCHes it, so that it fails if the lease has changed hands or run out since.
//!
//! Taking the lease touches the key even where it holds this parser's own token, left from a connection that was
//! lost: whatever that connection sent before and Redis has not carried out yet then fails too. An EXEC is only ever
//! sent after its WATCH was answered, so none can slip in behind. That is why the checkpoint must be read after
//! taking the lease, never before.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, test_kill_process};
use sha2::{Digest, Sha256};
use tracing::{info, warn};

use super::failure::{self, Failure};
use super::server::Server;
use crate::hex;
use crate::keys::Keys;

/// How long the lease lasts without being renewed, in milliseconds.
pub const LEASE_MS: u64 = 10_000;

/// How often a parser that stands by looks whether it is free.
const POLL: Duration = Duration::from_secs(1);

/// Giving it up at a clean stop must not keep the process from ending.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// This process' claim to be the writer of a namespace and chain.
#[derive(Debug, Clone)]
pub struct Lease {
    key: String,
    token: String,
}

impl Lease {
    /// A claim with a token of its own.
    pub fn new(keys: &Keys) -> Lease {
        Lease::with_token(keys, token())
    }

    /// A claim with that token.
    pub fn with_token(keys: &Keys, token: String) -> Lease {
        Lease { key: keys.writer.clone(), token }
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Takes the lease, standing by as long as another parser holds it. `held_by` is told the holder each time it is
    /// looked for, and may give up.
    pub async fn acquire(
        &self,
        server: &Server,
        mut held_by: impl AsyncFnMut(&mut MultiplexedConnection, &str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut connection = server.connect_control().await?;
        let mut stood_by = false;
        while let Some(holder) = self.try_take(&mut connection).await? {
            held_by(&mut connection, &holder).await?;
            stood_by = true;
            tokio::time::sleep(POLL).await;
        }
        if stood_by {
            info!(key = self.key, "the other parser has stopped: writing here now");
        }
        Ok(())
    }

    /// Takes the lease if it is free, this process' own, or held by a process of this host that is gone.
    /// Otherwise says who holds it. The connection must not be shared meanwhile: WATCH is used.
    pub async fn try_take(&self, connection: &mut MultiplexedConnection) -> Result<Option<String>, Failure> {
        loop {
            let taken: Option<String> = redis::cmd("SET")
                .arg((&self.key, &self.token, "NX", "PX", LEASE_MS))
                .query_async(connection)
                .await
                .map_err(|error| self.failed(error))?;
            if taken.is_some() {
                return Ok(None);
            }
            let holder = self.holder(connection).await?;
            let Some(holder) = holder else { continue };
            let gone = is_gone(&holder);
            if holder != self.token && !gone {
                return Ok(Some(holder));
            }
            if self.replace(connection, &holder, true).await? {
                if gone {
                    warn!(holder, "the lease was held by a process that is gone: replaced");
                }
                return Ok(None);
            }
        }
    }

    /// Gives the lease up if it is still this process'.
    pub async fn release(&self, server: &Server) -> Result<(), Failure> {
        let release = async {
            let mut connection = server.connect_control().await?;
            self.replace(&mut connection, &self.token, false).await.map(drop)
        };
        tokio::time::timeout(RELEASE_LIMIT, release)
            .await
            .unwrap_or_else(|_| Err(Failure::Disconnected("no answer while giving up the lease".to_owned())))
    }

    /// Who holds it.
    async fn holder(&self, connection: &mut MultiplexedConnection) -> Result<Option<String>, Failure> {
        let holder = redis::cmd("GET").arg(&self.key).query_async(connection).await;
        holder.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: redis::RedisError) -> Failure {
        failure::about(error, &[&self.key])
    }

    /// Where the key still holds `expected`: puts the own token there anew, or removes it. Says whether it did.
    async fn replace(
        &self,
        connection: &mut MultiplexedConnection,
        expected: &str,
        take: bool,
    ) -> Result<bool, Failure> {
        redis::cmd("WATCH")
            .arg(&self.key)
            .exec_async(connection)
            .await
            .map_err(|error| self.failed(error))?;
        let holder = self.holder(connection).await?;
        if holder.as_deref() != Some(expected) {
            redis::cmd("UNWATCH").exec_async(connection).await?;
            return Ok(false);
        }
        let mut transaction = redis::pipe();
        transaction.atomic();
        if take {
            transaction.cmd("SET").arg((&self.key, &self.token, "PX", LEASE_MS)).ignore();
        } else {
            transaction.del(&self.key).ignore();
        }
        let done: Option<()> = transaction.query_async(connection).await?;
        Ok(done.is_some())
    }
}

/// A new token: `HOST:PROCESS:RANDOM`.
pub fn token() -> String {
    format!("{}:{}:{:016x}", this_host(), std::process::id(), fastrand::u64(..))
}

/// This machine's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The host as in a token. Processes that cannot see each other (containers, equal host names) differ in it.
fn this_host() -> String {
    let name = host_name().replace(':', "_");
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let mut sum = Sha256::new();
    sum.update(boot);
    sum.update(space.as_os_str().as_encoded_bytes());
    format!("{name}/{}", hex::lower(&sum.finalize()[..4]))
}

/// Whether the holder was a process of this host that is no more. When in doubt it is not.
fn is_gone(token: &str) -> bool {
    let mut parts = token.rsplitn(3, ':');
    let (Some(_random), Some(process), Some(host)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let pid = process.parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw);
    let Some(pid) = pid else { return false };
    if host != this_host() {
        return false;
    }
    match test_kill_process(pid) {
        Err(rustix::io::Errno::SRCH) => true,
        // Killed, but its parent has not asked for its exit status yet.
        _ => std::fs::read_to_string(format!("/proc/{process}/stat"))
            .ok()
            .and_then(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with(['Z', 'X'])))
            .unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dead_process_of_this_host_is_gone() {
        let host = this_host();
        assert!(!is_gone(&format!("{host}:{}:0", std::process::id())));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let token = format!("{host}:{}:0", child.id());
        child.wait().unwrap();
        assert!(is_gone(&token));
        assert!(!is_gone(&format!("elsewhere/00000000:{}:0", child.id())));
        for foreign in ["", "x", "a:b", "a:b:c", &format!("{host}:0:1"), &format!("{host}:-1:1")] {
            assert!(!is_gone(foreign), "{foreign}");
        }
    }
}
