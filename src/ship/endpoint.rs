//! Where a node is: `ws://host:port`, `wss://host:port` or `ws+unix:///path/to/socket`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

use crate::transport::Target;

/// A node's address. Shown without what follows a `?`, as keys of hosted nodes are put there.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    url: Url,
    target: Target,
}

/// Why a text is no address of a node. It never repeats the text, which may hold a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not a URL at all.
    #[error("not a URL ({0}); a node's address looks like ws://127.0.0.1:8080")]
    NotUrl(url::ParseError),
    /// Another scheme.
    #[error("`{0}://` is not spoken here; use ws://HOST:PORT, wss://HOST:PORT or ws+unix:///PATH")]
    Scheme(String),
    /// Nothing to connect to.
    #[error("the host is missing; a node's address looks like ws://127.0.0.1:8080")]
    NoHost,
    /// `ws+unix` with a host or without a path.
    #[error("a socket file's address has three slashes and a path: ws+unix:///run/nodeos/ship.sock")]
    NoSocket,
    /// `user:password@`
    #[error("nodes know no user and password: leave out what stands before the `@`")]
    Credentials,
}

// === impl Endpoint ===

impl Endpoint {
    /// What to connect to.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The address for the WebSocket handshake.
    pub(super) fn handshake_url(&self) -> &str {
        match self.target {
            // There is no host: nodeos looks at none.
            Target::Unix(_) => "ws://localhost/",
            _ => self.url.as_str(),
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let url = Url::parse(text).map_err(EndpointError::NotUrl)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::Credentials);
        }
        let host = || {
            // In brackets an address of IPv6 is no host name.
            let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
            if host.is_empty() { Err(EndpointError::NoHost) } else { Ok(host.to_owned()) }
        };
        let target = match url.scheme() {
            "ws" => Target::Tcp(host()?, url.port().unwrap_or(80)),
            "wss" => Target::Tls(host()?, url.port().unwrap_or(443)),
            "ws+unix" => {
                let path = url.path();
                if url.has_host() || path.len() < 2 {
                    return Err(EndpointError::NoSocket);
                }
                Target::Unix(PathBuf::from(path))
            }
            other => return Err(EndpointError::Scheme(other.to_owned())),
        };
        Ok(Endpoint { url, target })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.url.clone();
        shown.set_fragment(None);
        if shown.query().is_some() {
            shown.set_query(Some("***"));
        }
        let text = shown.as_str();
        // `ws://host:8080/` is written without its slash, as in the configuration.
        f.write_str(if shown.path() == "/" { text.trim_end_matches('/') } else { text })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_nodes() {
        for (text, shown, target) in [
            ("ws://127.0.0.1:8080", "ws://127.0.0.1:8080", Target::Tcp("127.0.0.1".into(), 8080)),
            ("ws://[::1]:8080/", "ws://[::1]:8080", Target::Tcp("::1".into(), 8080)),
            (
                "wss://ship.example/v1?key=abc",
                "wss://ship.example/v1?***",
                Target::Tls("ship.example".into(), 443),
            ),
            ("ws+unix:///run/ship.sock", "ws+unix:///run/ship.sock", Target::Unix("/run/ship.sock".into())),
        ] {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(*endpoint.target(), target);
        }
    }

    #[test]
    fn other_texts_are_refused_and_not_repeated() {
        for (text, part) in [
            ("127.0.0.1:8080", "not a URL"),
            ("http://node:8888", "`http://` is not spoken here"),
            ("ws+unix://run/ship.sock", "three slashes"),
            ("ws+unix:///", "three slashes"),
            ("ws://me:hunter2@node:8080", "leave out what stands before the `@`"),
            ("ws://", "not a URL"),
        ] {
            let error = text.parse::<Endpoint>().expect_err(text).to_string();
            assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
        }
    }
}
