//! `parser health`: what a running parser answers at `/health`, for where there is no curl.

use std::io::{self, Write};
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ureq::Agent;

use super::namespace::ConfigArg;
use crate::config::{Config, ConfigError, Health};

/// Container engines give up sooner or later, too.
const LIMIT: Duration = Duration::from_secs(4);

/// Prints the answer; an error unless it is "healthy".
pub(super) fn run(args: &ConfigArg) -> Result<()> {
    let health = Config::load(&args.config)?.health;
    if !health.enabled {
        let file = args.config.display();
        return Err(ConfigError::new(format!(
            "{file}: health.enabled is false: the parser does not tell its health"
        ))
        .into());
    }
    let url = url(&health);
    let agent: Agent =
        Agent::config_builder().timeout_global(Some(LIMIT)).http_status_as_error(false).build().into();
    let mut answer =
        agent.get(&url).call().with_context(|| format!("{url}: no answer: is the parser running?"))?;
    let text = answer.body_mut().read_to_string().with_context(|| url.clone())?;
    writeln!(io::stdout(), "{text}")?;
    match answer.status().as_u16() {
        200 => Ok(()),
        status => bail!("{url}: status {status}: the parser is not healthy"),
    }
}

/// Where it can be asked from the same machine.
fn url(health: &Health) -> String {
    let host = match health.host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V6(address)) if address.is_unspecified() => "[::1]".to_owned(),
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => health.host.clone(),
    };
    format!("http://{host}:{}/health", health.port)
}
