//! Why publishing stopped, and what is to be done about it.

use std::io;

/// Why a connection to Redis, or a writer, stopped. After any of them nothing more is sent on that
/// connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Another parser holds the lease, or it ran out. Stand by until it is free.
    #[error("the writer lease is lost: {}", holder.as_ref().map_or("it ran out, or another parser took it".to_owned(), |h| format!("{h} holds it")))]
    LostLease {
        /// Token of the parser that holds it now, if known.
        holder: Option<String>,
    },
    /// Redis does not accept writes for the moment (out of memory, loading, read-only, no replicas, ...).
    /// Wait, connect anew and go on from the checkpoint.
    #[error("Redis refuses writes for now: {0}")]
    Refused(String),
    /// The connection was lost or could not be made. Connect anew and go on from the checkpoint.
    #[error("no connection to Redis: {0}")]
    Disconnected(String),
    /// What lies in Redis does not fit the configuration; nothing was written. Exit status 2.
    #[error("{0}")]
    Unfit(String),
    /// Redis will never accept this (wrong password, missing permission, unknown command, ...). Exit status 1.
    #[error("{0}")]
    Fatal(String),
}

impl Failure {
    /// Whether waiting, connecting anew and going on from the checkpoint can mend it.
    pub fn is_transient(&self) -> bool {
        matches!(self, Failure::LostLease { .. } | Failure::Refused(_) | Failure::Disconnected(_))
    }

    /// Whether Redis has no room: for what takes room, that is.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Failure::Refused(message) if message.contains("OOM command not allowed"))
    }

    /// What an error reply (without its leading `-`) means.
    pub fn from_reply(message: &str) -> Failure {
        Failure::from_reply_about(message, None)
    }

    /// The same, for a command on one key: Redis itself does not name it.
    pub fn from_reply_about(message: &str, key: Option<&str>) -> Failure {
        // An EXEC refused for a reason of its own carries it: "EXECABORT Transaction discarded because of: OOM ...".
        let reason = message.split_once("because of: ").map_or(message, |(_, reason)| reason);
        let code = reason.split(' ').next().unwrap_or_default();
        match code {
            "OOM" | "READONLY" | "LOADING" | "MISCONF" | "NOREPLICAS" | "MASTERDOWN" | "BUSY"
            | "TRYAGAIN" | "CLUSTERDOWN" | "ASK" | "UNBLOCKED" | "FAILOVER" => {
                Failure::Refused(message.to_owned())
            }
            "MOVED" => Failure::Refused(format!(
                "another node of the cluster has these keys, whose address is to be redis.url: {message}"
            )),
            "ERR" if reason.contains("max number of clients") => Failure::Refused(message.to_owned()),
            "NOAUTH" => Failure::Fatal(format!("Redis asks for a password (redis.password): {message}")),
            "WRONGPASS" => Failure::Fatal(format!(
                "Redis refuses the user or password (redis.url, redis.password): {message}"
            )),
            "NOPERM" => Failure::Fatal(format!(
                "Redis does not permit this user what the parser needs: {message}{} (`scripts/redis-acl` prints what to permit)",
                key.map(|key| format!(" `{key}`")).unwrap_or_default()
            )),
            "WRONGTYPE" if key.is_some() => Failure::Unfit(format!(
                "the Redis key `{}` is of another type than the parser's: something else uses that name; use another \
                 `redis.namespace`, or remove the key",
                key.unwrap_or_default()
            )),
            _ => Failure::Fatal(format!("Redis refused a command: {message}")),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Disconnected(error.to_string())
    }
}

impl From<redis::RedisError> for Failure {
    fn from(error: redis::RedisError) -> Failure {
        about(error, &[])
    }
}

/// What a failed command on a key means; or a pipeline of commands, on a key each.
pub fn about(error: redis::RedisError, keys: &[&str]) -> Failure {
    // A transaction's or pipeline's first error tells why; the library splits a reply into code and text.
    if let Some([(place, first), ..]) = error.clone().into_server_errors().as_deref() {
        let message = format!("{} {}", first.code(), first.details().unwrap_or_default());
        return Failure::from_reply_about(&message, keys.get(*place).copied());
    }
    match error.kind() {
        // The library's answer when EXEC itself was refused.
        redis::ErrorKind::UnexpectedReturnType => Failure::Refused(error.to_string()),
        redis::ErrorKind::Parse => Failure::Fatal(format!("Redis answered something unexpected: {error}")),
        _ => Failure::Disconnected(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_that_pass_are_told_from_those_that_do_not() {
        // Messages of Redis 7.0 (server.c, acl.c).
        for message in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "READONLY You can't write against a read only replica.",
            "LOADING Redis is loading the dataset in memory",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "NOREPLICAS Not enough good replicas to write.",
            "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
            "ERR max number of clients reached",
        ] {
            assert_eq!(Failure::from_reply(message), Failure::Refused(message.to_owned()));
        }
        for message in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'watch' command",
            "ERR unknown command 'WATCH'",
        ] {
            let failure = Failure::from_reply(message);
            assert!(matches!(&failure, Failure::Fatal(text) if text.contains(message)), "{failure:?}");
        }
    }
}
