//! Which Redis to connect to, and connections for everything that is not the stream of transactions.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use super::connection::Connection;
use super::failure::Failure;
use crate::transport::Target;

/// How long a command on a control connection may take.
const CONTROL_LIMIT: Duration = Duration::from_secs(10);

/// Address and credentials of a Redis server.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where it listens.
    pub target: Target,
    /// User, password and database. Its `Debug` hides the password.
    pub login: RedisConnectionInfo,
}

/// A URL that names no Redis server. It never holds the password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("redis.url: {0}")]
pub struct ServerError(String);

impl Server {
    /// Reads `redis://[user[:password]@]host[:port][/db]`, `rediss://` (TLS) or
    /// `unix:///path[?db=N&user=..&pass=..]`. `password`, where given, goes before the URL's.
    pub fn new(url: &str, password: Option<&str>) -> Result<Server, ServerError> {
        let error = |reason: &str| {
            ServerError(format!(
                "{reason}; `redis://host:port/db`, `rediss://host:port/db` or `unix:///path` is expected"
            ))
        };
        // The library reads rediss:// only when it brings its own TLS, which is not used here.
        let (plain, tls) = match url.strip_prefix("rediss://") {
            Some(rest) => (format!("redis://{rest}"), true),
            None => (url.to_owned(), false),
        };
        if plain.contains('#') {
            return Err(error("a `#` part is not supported (certificates are always verified)"));
        }
        let info: ConnectionInfo = plain.into_connection_info().map_err(|e| error(&e.to_string()))?;
        let target = match (info.addr(), tls) {
            (ConnectionAddr::Tcp(host, port), false) => Target::Tcp(host.clone(), *port),
            (ConnectionAddr::Tcp(host, port), true) => Target::Tls(host.clone(), *port),
            (ConnectionAddr::Unix(path), _) => Target::Unix(path.clone()),
            _ => return Err(error("unknown kind of address")),
        };
        let mut login = info.redis_settings().clone();
        if let Some(password) = password {
            login = login.set_password(password);
        }
        Ok(Server { target, login })
    }

    /// A connection for everything but the writer's transactions. Each command has a time limit; once one
    /// has failed for want of a connection, all do: connect anew.
    pub async fn connect_control(&self) -> Result<MultiplexedConnection, Failure> {
        // Logged in here and not by the library, which drops the server's reason for a refusal.
        let stream = Connection::open(self, "parser-control").await?.into_stream();
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(CONTROL_LIMIT));
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (connection, driver) = MultiplexedConnection::new_with_config(&settings, stream, config).await?;
        tokio::spawn(driver);
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_all_kinds() {
        let server = Server::new("redis://example.org", None).unwrap();
        assert_eq!(server.target, Target::Tcp("example.org".into(), 6379));
        assert_eq!((server.login.db(), server.login.username(), server.login.password()), (0, None, None));

        let server = Server::new("rediss://me:a%40b@example.org:7000/3", None).unwrap();
        assert_eq!(server.target, Target::Tls("example.org".into(), 7000));
        assert_eq!(server.login.db(), 3);
        assert_eq!((server.login.username(), server.login.password()), (Some("me"), Some("a@b")));

        let server = Server::new("unix:///run/redis.sock?db=2", Some("secret")).unwrap();
        assert_eq!(server.target, Target::Unix("/run/redis.sock".into()));
        assert_eq!((server.login.db(), server.login.password()), (2, Some("secret")));
        assert!(!format!("{server:?}").contains("secret"));
    }

    #[test]
    fn what_is_no_redis_url_is_refused_without_showing_it() {
        for url in [
            "http://x:secret@example.org",
            "redis://:secret@example.org/abc",
            "rediss://:secret@h/#insecure",
            "",
        ] {
            let error = Server::new(url, None).unwrap_err().to_string();
            assert!(error.starts_with("redis.url: ") && !error.contains("secret"), "{error}");
        }
    }
}
