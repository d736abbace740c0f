//! The node's chain API over HTTP: the current ABI of an account, as get_raw_abi gives it.
//!
//! One question is one try with a time limit; whether and when to ask again is up to the caller.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::base64;
use crate::config::ServerUrl;
use crate::name::Name;

/// What the chain API says about an account's ABI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawAbi {
    /// The packed ABI, unchecked: the chain does not check it either.
    Abi(Vec<u8>),
    /// The account has none.
    None,
    /// There is no such account.
    UnknownAccount,
}

/// No answer, or none that can be used. The same question may work later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("chain API {url}: {message}")]
pub struct ChainApiError {
    /// The API's URL without secrets.
    url: String,
    message: String,
}

/// A chain API.
#[derive(Debug, Clone)]
pub struct ChainApi {
    agent: Agent,
    /// With its secrets, if it has any.
    get_raw_abi: Arc<str>,
    shown: Arc<str>,
}

/// More than an ABI on a chain can have (a transaction's size limits it), so that no answer uses up memory.
const MOST_BYTES: u64 = 64 << 20;
/// `account_query_exception` of nodeos, since Leap 5.
const ACCOUNT_QUERY_EXCEPTION: u64 = 3_060_002;

#[derive(Deserialize)]
struct Answer {
    account_name: String,
    abi: String,
}

#[derive(Deserialize)]
struct Failure {
    error: FailureError,
}

#[derive(Deserialize)]
struct FailureError {
    #[serde(default)]
    code: u64,
    #[serde(default)]
    what: String,
    #[serde(default)]
    details: Vec<FailureDetail>,
}

#[derive(Deserialize)]
struct FailureDetail {
    #[serde(default)]
    message: String,
}

// === impl ChainApi ===

impl ChainApi {
    /// An API at `url`; `timeout` holds for a whole question, from connecting to the last byte.
    pub fn new(url: &ServerUrl, timeout: Duration) -> Result<ChainApi, ChainApiError> {
        let error = |message: String| ChainApiError { url: url.to_string(), message };
        let mut endpoint = url::Url::parse(url.as_str()).map_err(|e| error(e.to_string()))?;
        match endpoint.path_segments_mut() {
            Ok(mut path) => drop(path.pop_if_empty().extend(["v1", "chain", "get_raw_abi"])),
            Err(()) => return Err(error("not a URL that paths can be added to".into())),
        }
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            // Redirected, a POST becomes a GET, which nodeos answers with something else.
            .max_redirects(0)
            .max_redirects_will_error(false);
        let config =
            if endpoint.scheme() == "https" { config.tls_config(tls().map_err(error)?) } else { config };
        Ok(ChainApi {
            agent: config.build().into(),
            get_raw_abi: endpoint.as_str().into(),
            shown: url.to_string().into(),
        })
    }

    /// Asks for an account's ABI.
    pub async fn raw_abi(&self, account: Name) -> Result<RawAbi, ChainApiError> {
        let api = self.clone();
        let answer = tokio::task::spawn_blocking(move || api.ask(account)).await;
        // The task ends early only when the runtime is shut down.
        answer
            .unwrap_or_else(|_| Err("stopped while waiting for the answer".into()))
            .map_err(|message| ChainApiError { url: self.shown.to_string(), message })
    }

    fn ask(&self, account: Name) -> Result<RawAbi, String> {
        let question = serde_json::json!({ "account_name": account.to_string() });
        let mut response =
            self.agent.post(&*self.get_raw_abi).send_json(question).map_err(|e| transport_error(&e))?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MOST_BYTES).read_to_vec();
        let body = body.map_err(|e| transport_error(&e))?;
        read_answer(account, status, &body)
    }
}

fn tls() -> Result<TlsConfig, String> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        return Err("no trusted TLS certificates found on this machine (install ca-certificates, or set \
                    SSL_CERT_FILE)"
            .into());
    }
    let roots: Vec<_> = found.certs.iter().map(|cert| Certificate::from_der(cert).to_owned()).collect();
    Ok(TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots))).build())
}

fn transport_error(error: &ureq::Error) -> String {
    match error {
        // This one repeats the URL, password included.
        ureq::Error::BadUri(_) => "not a valid URL".into(),
        error => error.to_string(),
    }
}

fn read_answer(account: Name, status: u16, body: &[u8]) -> Result<RawAbi, String> {
    if status != 200 {
        return read_failure(account, status, body);
    }
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| format!("the answer for {account} is not one of get_raw_abi: {error}"))?;
    if answer.account_name != account.to_string() {
        return Err(format!("asked for {account}, answered for `{}`", answer.account_name));
    }
    match base64::decode(&answer.abi) {
        Some(abi) if abi.is_empty() => Ok(RawAbi::None),
        Some(abi) => Ok(RawAbi::Abi(abi)),
        None => Err(format!("the ABI of {account} is not valid base64")),
    }
}

/// nodeos says "unknown account" as status 500 with the text of a failed table look-up (up to Leap 4) or as status
/// 400 with a code of its own (since Leap 5).
fn read_failure(account: Name, status: u16, body: &[u8]) -> Result<RawAbi, String> {
    let failure = serde_json::from_slice::<Failure>(body).ok().map(|failure| failure.error);
    let Some(failure) = failure else {
        return Err(format!("HTTP status {status} to a question for the ABI of {account}"));
    };
    let message = failure.details.first().map_or("", |detail| &detail.message);
    if failure.code == ACCOUNT_QUERY_EXCEPTION || message.starts_with("unknown key") {
        return Ok(RawAbi::UnknownAccount);
    }
    let message = if message.is_empty() { &failure.what } else { message };
    Err(format!("HTTP status {status} to a question for the ABI of {account}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Name = Name::literal("alice");

    #[test]
    fn an_unknown_account_is_told_from_a_failure() {
        // Answers of EOSIO 1.8, Leap 3 and Leap 5.
        for (status, body) in [
            (
                500,
                r#"{"code":500,"message":"Internal Service Error","error":{"code":0,"name":"exception","what":"unspecified","details":[{"message":"unknown key (eosio::chain::name): alice","file":"http_plugin.cpp","line_number":656,"method":"handle_exception"}]}}"#,
            ),
            (
                500,
                r#"{"code":500,"message":"Internal Service Error","error":{"code":0,"name":"exception","what":"unspecified","details":[{"message":"unknown key (boost::tuples::tuple<bool>): (0 alice)","file":"http_plugin.cpp","line_number":516,"method":"handle_exception"}]}}"#,
            ),
            (
                400,
                r#"{"code":400,"message":"Account lookup","error":{"code":3060002,"name":"account_query_exception","what":"Account Query Exception","details":[{"message":"unable to retrieve account info","file":"chain_plugin.cpp","line_number":2555,"method":"get_account"}]}}"#,
            ),
        ] {
            assert_eq!(read_answer(ALICE, status, body.as_bytes()), Ok(RawAbi::UnknownAccount));
        }
        let busy = r#"{"code":500,"message":"x","error":{"code":3080006,"name":"deadline_exception","what":"Transaction took too long","details":[]}}"#;
        let error = read_answer(ALICE, 500, busy.as_bytes()).expect_err("not about the account");
        assert!(error.contains("500") && error.contains("Transaction took too long"), "{error}");
        let error = read_answer(ALICE, 404, b"<html>").expect_err("no nodeos");
        assert!(error.contains("HTTP status 404"), "{error}");
    }

    #[test]
    fn answers_that_do_not_fit_are_errors() {
        for (body, part) in [
            ("{}", "not one of get_raw_abi"),
            ("", "not one of get_raw_abi"),
            (r#"{"account_name":"bob","abi":""}"#, "answered for `bob`"),
            (r#"{"account_name":"alice","abi":"*"}"#, "not valid base64"),
        ] {
            let error = read_answer(ALICE, 200, body.as_bytes()).expect_err(body);
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(read_answer(ALICE, 200, br#"{"account_name":"alice","abi":"="}"#), Ok(RawAbi::None));
    }
}
