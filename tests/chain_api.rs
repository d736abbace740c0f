//! The chain API client against an HTTP server that plays a node with recorded answers of get_raw_abi.

use std::collections::HashMap;
use std::env::VarError;
use std::path::PathBuf;
use std::time::Duration;

use parser::chain_api::{ChainApi, RawAbi};
use parser::config::{CHAIN_API, ServerUrl};
use parser::name::Name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Reads one POST and gives its head and body.
async fn request(socket: &mut TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    loop {
        socket.read_buf(&mut bytes).await.expect("a request");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length:").and_then(|length| length.trim().parse::<usize>().ok())
            });
            if body.len() >= length.expect("a length") {
                return (head.to_owned(), body.to_owned());
            }
        }
    }
}

async fn reply(socket: &mut TcpStream, status: u16, body: &str) {
    let length = body.len();
    let reply = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    socket.write_all(reply.as_bytes()).await.expect("the reply is taken");
}

/// Serves the recorded ABIs as nodeos does.
async fn node(abis: HashMap<String, String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.expect("a client");
            let (head, body) = request(&mut socket).await;
            assert!(head.starts_with("POST /prefix/v1/chain/get_raw_abi HTTP/1.1\r\n"), "{head}");
            let question: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            let account = question["account_name"].as_str().expect("an account").to_owned();
            let (status, answer) = match abis.get(&account) {
                Some(abi) => {
                    let hash = "00".repeat(32);
                    let answer = serde_json::json!({
                        "account_name": account, "code_hash": hash, "abi_hash": hash, "abi": abi,
                    });
                    (200, answer)
                }
                None => {
                    let what = format!("unknown key (eosio::chain::name): {account}");
                    let answer = serde_json::json!({
                        "code": 500,
                        "message": "Internal Service Error",
                        "error": {"code": 0, "name": "exception", "what": "unspecified", "details": [{
                            "message": what, "file": "http_plugin.cpp", "line_number": 656,
                            "method": "handle_exception",
                        }]},
                    });
                    (500, answer)
                }
            };
            reply(&mut socket, status, &answer.to_string()).await;
        }
    });
    format!("http://{address}/prefix/")
}

fn api(url: &str, timeout: Duration) -> ChainApi {
    let environment = |name: &str| match name {
        "PW" => Ok("s3cret".to_owned()),
        _ => Err(VarError::NotPresent),
    };
    let url = ServerUrl::from_argument(url, CHAIN_API, &environment).expect("a URL");
    ChainApi::new(&url, timeout).expect("a client")
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

#[tokio::test]
async fn recorded_abis_are_read_as_the_node_gives_them() {
    let shared = std::env::var_os("PARSER_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let file = shared.join("captures/mixed.rawabi.json");
    let Ok(recorded) = std::fs::read_to_string(&file) else {
        println!("skipped: {} is not there", file.display());
        return;
    };
    let mut abis: HashMap<String, String> = serde_json::from_str(&recorded).expect("account to base64");
    let accounts: Vec<String> = abis.keys().cloned().collect();
    abis.insert("noabi".into(), "=".into());
    let api = api(&node(abis).await, Duration::from_secs(10));

    for account in &accounts {
        let answer = api.raw_abi(name(account)).await.expect("an answer");
        let RawAbi::Abi(abi) = answer else { panic!("{account} has an ABI") };
        // Packed ABIs begin with their version as a string; that of two contracts is wrong on purpose.
        let wrong = ["garbageabi11", "badver111111"].contains(&account.as_str());
        assert!(wrong || abi.get(1..14) == Some(b"eosio::abi/1."), "{account}");
    }
    // Sizes by another decoder (Python's base64).
    for (account, size) in SIZES {
        let answer = api.raw_abi(name(account)).await.expect("an answer");
        assert!(matches!(&answer, RawAbi::Abi(abi) if abi.len() == size), "{account}");
    }
    assert_eq!(api.raw_abi(name("noabi")).await, Ok(RawAbi::None));
    assert_eq!(api.raw_abi(name("nobody")).await, Ok(RawAbi::UnknownAccount));
}

const SIZES: [(&str, usize); 3] = [("eosio", 7158), ("emptyabi1111", 24), ("hugeabi11111", 121_327)];

#[tokio::test]
async fn a_node_that_cannot_be_reached_or_does_not_answer_is_an_error_without_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    // The system takes the connection, and nobody answers.
    let silent = api(&format!("http://me:${{PW}}@{address}"), Duration::from_millis(200));
    let error = silent.raw_abi(name("eosio")).await.expect_err("no answer").to_string();
    assert!(error.starts_with(&format!("chain API http://me:***@{address}: timeout")), "{error}");
    drop(listener);
    let error = silent.raw_abi(name("eosio")).await.expect_err("nobody listens").to_string();
    assert!(error.contains("refused") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_redirection_is_told_and_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        request(&mut socket).await;
        let reply = b"HTTP/1.1 301 Moved\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n";
        socket.write_all(reply).await.expect("the reply is taken");
    });
    let api = api(&format!("http://{address}"), Duration::from_secs(10));
    let error = api.raw_abi(name("eosio")).await.expect_err("no answer").to_string();
    assert!(error.contains("HTTP status 301 to a question for the ABI of eosio"), "{error}");
}

#[tokio::test]
async fn a_tls_handshake_that_fails_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        // A TLS record of the handshake begins with 22; anything but TLS comes back.
        assert_eq!(socket.read_u8().await.expect("a byte"), 22);
        reply(&mut socket, 200, "no TLS here").await;
    });
    let api = api(&format!("https://{address}"), Duration::from_secs(10));
    let error = api.raw_abi(name("eosio")).await.expect_err("no TLS").to_string();
    assert!(error.starts_with(&format!("chain API https://{address}: ")), "{error}");
}
