//! Where the node, the chain API and Redis are, and the passwords to them, kept out of logs and messages.

use std::fmt;
use std::ops::Range;

use serde::{Serialize, Serializer};

use super::substitution::{self, Environment, Text};

/// A password. Printing it in any way gives `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A checked URL that may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    text: String,
    shown: String,
}

/// Which URLs a key takes.
#[derive(Debug, Clone, Copy)]
pub struct Schemes(&'static [&'static str]);

/// The node's state history plugin.
pub const SHIP: Schemes = Schemes(&["ws", "wss", "ws+unix"]);
/// The node's chain API.
pub const CHAIN_API: Schemes = Schemes(&["http", "https"]);
/// Redis.
pub const REDIS: Schemes = Schemes(&["redis", "rediss", "unix"]);

/// Query parameters that are passwords.
const SECRET_PARAMETERS: &[&str] =
    &["password", "passwd", "pass", "token", "access_token", "secret", "key", "apikey", "api_key", "auth"];

// === impl Secret ===

impl Secret {
    pub(super) fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The password itself: for the server, never for a person to read.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl ServerUrl ===

impl ServerUrl {
    /// A URL given on the command line; variables are replaced in it as in the configuration, so that a password
    /// need not be typed.
    pub fn from_argument(
        argument: &str,
        schemes: Schemes,
        environment: Environment<'_>,
    ) -> Result<ServerUrl, String> {
        ServerUrl::parse(&substitution::replace(argument, true, environment)?, schemes)
    }

    /// The error never holds the URL itself: it might be one with a password.
    pub(super) fn parse(url: &Text, schemes: Schemes) -> Result<ServerUrl, String> {
        let parts = Parts::of(&url.text, schemes)?;
        if let Some(password) = &parts.password
            && !url.is_env(password.clone())
        {
            return Err(written_out("a password", "://user:${PASSWORD}@host"));
        }
        for (name, value) in parts.parameters(&url.text) {
            let secret = SECRET_PARAMETERS.contains(&url.text[name.clone()].to_ascii_lowercase().as_str());
            if secret && !value.is_empty() && !url.is_env(value.clone()) {
                let name = &url.text[name];
                return Err(written_out(&format!("the secret `{name}`"), &format!("?{name}=${{SECRET}}")));
            }
        }
        Ok(ServerUrl { shown: parts.shown(url), text: url.text.clone() })
    }

    /// Whether both name the same, however they are written (`ws://a` and `ws://A:80/`).
    pub(super) fn is_same(&self, other: &ServerUrl) -> bool {
        let normal = |url: &ServerUrl| url::Url::parse(&url.text);
        self == other || normal(self).is_ok_and(|url| normal(other) == Ok(url))
    }

    /// The whole URL, password included: for connecting, never for a person to read (that is what
    /// [`Display`](fmt::Display) is for).
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Without passwords, query values and whatever of the path came from the environment.
impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Serialize for ServerUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn written_out(what: &str, example: &str) -> String {
    format!(
        "{what} must not be written out here: put it into an environment variable and name that, like `{example}`"
    )
}

/// The parts of a URL as byte ranges of its text.
struct Parts {
    unix: bool,
    /// `scheme://`.
    scheme: Range<usize>,
    user: Option<Range<usize>>,
    password: Option<Range<usize>>,
    host: Range<usize>,
    path: Range<usize>,
    query: Range<usize>,
}

// === impl Parts ===

impl Parts {
    fn of(text: &str, schemes: Schemes) -> Result<Parts, String> {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        if !schemes.0.contains(&scheme) {
            return Err(format!("must begin with {schemes}"));
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err("must not hold spaces, control characters or `\\`".into());
        }
        let start = scheme.len() + 3;
        let unix = scheme.ends_with("unix");
        let find = |from: usize, ends: &[char]| text[from..].find(ends).map_or(text.len(), |at| from + at);
        let query_start = find(start, &['?', '#']);
        let query = (query_start + 1).min(text.len())..find(query_start, &['#']);
        let query = query.start..query.end.max(query.start);
        if unix {
            if !text[start..query_start].starts_with(['/', '.']) {
                return Err(format!("must name a socket file, like `{scheme}:///run/socket`"));
            }
            let none = start..start;
            let path = start..query_start;
            return Ok(Parts { unix, scheme: 0..start, user: None, password: None, host: none, path, query });
        }

        // The text of these errors is fixed ("invalid port number"), so it cannot hold a password.
        let parsed = url::Url::parse(text).map_err(|error| format!("is not a valid URL: {error}"))?;
        if parsed.host_str().is_none_or(str::is_empty) {
            return Err("has no host".into());
        }
        let path_start = find(start, &['/', '?', '#']);
        let (mut user, mut password, mut host) = (None, None, start..path_start);
        if let Some(at) = text[start..path_start].rfind('@') {
            let at = start + at;
            host.start = at + 1;
            let colon = find(start, &[':']);
            user = Some(start..colon.min(at)).filter(|range| !range.is_empty());
            password = Some(colon + 1..at).filter(|range| range.start < range.end);
        }
        Ok(Parts { unix, scheme: 0..start, user, password, host, path: path_start..query_start, query })
    }

    /// Names and values of the query.
    fn parameters<'t>(&self, text: &'t str) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<'t> {
        let mut at = self.query.start;
        text[self.query.clone()].split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
            let start = at;
            at += pair.len() + 1;
            let equals = pair.find('=').unwrap_or(pair.len());
            (start..start + equals, (start + equals + 1).min(start + pair.len())..start + pair.len())
        })
    }

    fn shown(&self, url: &Text) -> String {
        let text = |range: &Range<usize>| &url.text[range.clone()];
        let mut shown = text(&self.scheme).to_owned();
        if let Some(user) = &self.user {
            // A user without a password is often a token.
            let hide = self.password.is_none() && url.touches_env(user.clone());
            shown.push_str(if hide { "***" } else { text(user) });
        }
        if self.password.is_some() {
            shown.push_str(":***");
        }
        if self.user.is_some() || self.password.is_some() {
            shown.push('@');
        }
        shown.push_str(text(&self.host));
        // Some hosters put the API key into the path; a socket file or a database's number is none.
        let path = text(&self.path);
        let plain = self.unix || path.len() <= 4 || !url.touches_env(self.path.clone());
        shown.push_str(if plain { path } else { "/***" });
        for (i, (name, _)) in self.parameters(&url.text).enumerate() {
            shown.push(if i == 0 { '?' } else { '&' });
            shown.push_str(text(&name));
            shown.push_str("=***");
        }
        shown
    }
}

impl fmt::Display for Schemes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, scheme) in self.0.iter().enumerate() {
            let between = match i {
                0 => "",
                _ if i + 1 == self.0.len() => " or ",
                _ => ", ",
            };
            write!(f, "{between}`{scheme}://`")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use super::*;

    fn environment(name: &str) -> Result<String, VarError> {
        match name {
            "PW" => Ok("s3cret".into()),
            "URL" => Ok("wss://user:s3cret@node.example:443/v1/s3cret-key?token=s3cret".into()),
            "ODD" => Ok("p/s3cret@x".into()),
            _ => Err(VarError::NotPresent),
        }
    }

    fn url(raw: &str, schemes: Schemes) -> Result<ServerUrl, String> {
        ServerUrl::from_argument(raw, schemes, &environment)
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        for (raw, schemes, shown) in [
            ("ws://node:8080", SHIP, "ws://node:8080"),
            ("ws+unix:///run/ship.sock", SHIP, "ws+unix:///run/ship.sock"),
            ("redis://:${PW}@127.0.0.1:6379/2", REDIS, "redis://:***@127.0.0.1:6379/2"),
            ("redis://me:${PW}@[::1]:6379", REDIS, "redis://me:***@[::1]:6379"),
            ("rediss://me@host", REDIS, "rediss://me@host"),
            ("https://${PW}@api.example", CHAIN_API, "https://***@api.example"),
            ("wss://node/v1/${PW}/ship", SHIP, "wss://node/***"),
            ("${URL}", SHIP, "wss://user:***@node.example:443/***?token=***"),
            ("unix:///run/redis.sock?db=1&pass=${PW}", REDIS, "unix:///run/redis.sock?db=***&pass=***"),
        ] {
            let url = url(raw, schemes).expect(raw);
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), shown);
        }
        let connect = url("redis://:${PW}@h", REDIS).expect("valid");
        assert_eq!(connect.as_str(), "redis://:s3cret@h");
    }

    #[test]
    fn written_out_secrets_are_refused_without_repeating_them() {
        for (raw, schemes) in [
            ("redis://user:s3cret@host", REDIS),
            ("redis://:s3cret@host", REDIS),
            ("redis://user:${PW}s3cret@host", REDIS),
            ("redis://user:${NONE:-s3cret}@host", REDIS),
            ("wss://node/ship?token=s3cret", SHIP),
            ("unix:///run/redis.sock?pass=s3cret", REDIS),
            ("https://u:s3cret@api.example/", CHAIN_API),
        ] {
            let error = url(raw, schemes).expect_err(raw);
            assert!(error.contains("environment variable") && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn urls_that_cannot_be_used_are_refused() {
        for (raw, schemes, part) in [
            ("http://node", SHIP, "must begin with `ws://`, `wss://` or `ws+unix://`"),
            ("node:8080", SHIP, "must begin with"),
            ("", SHIP, "must begin with"),
            ("ws://", SHIP, "empty host"),
            ("redis://:6379", REDIS, "empty host"),
            ("ws://node:99999", SHIP, "invalid port number"),
            ("ws://no de", SHIP, "must not hold spaces"),
            ("unix://run", REDIS, "unix:///run/socket"),
        ] {
            let error = url(raw, schemes).expect_err(raw);
            assert!(error.contains(part), "{raw}: {error}");
        }
        let error = url("redis://u:${ODD}@h", REDIS).expect_err("not encoded");
        assert!(!error.contains("s3cret"), "{error}");
    }
}
