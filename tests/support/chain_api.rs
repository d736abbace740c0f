//! A chain API that knows some ABIs.
#![allow(dead_code)] // Not every test uses all of it.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Plays get_raw_abi with these ABIs (base64 by account), at that port or a free one.
pub async fn chain_api(abis: HashMap<String, String>, port: u16) -> String {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = String::new();
            let account = loop {
                let mut bytes = vec![0; 4096];
                let count = socket.read(&mut bytes).await.expect("a request");
                request += std::str::from_utf8(&bytes[..count]).expect("text");
                let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                if let Ok(body) = serde_json::from_str::<Value>(body) {
                    break body["account_name"].as_str().expect("an account").to_owned();
                }
            };
            let (status, body) = match abis.get(&account) {
                Some(abi) => (200, json!({"account_name": account, "abi_hash": "00", "abi": abi})),
                None => (
                    500,
                    json!({"code": 500, "error": {"details": [{"message": format!("unknown key (eosio::chain::name): {account}")}]}}),
                ),
            };
            let body = body.to_string();
            let head =
                format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = socket.write_all((head + &body).as_bytes()).await;
        }
    });
    url
}

/// ABIs as it is given them.
pub fn current(entries: &[(&str, &[u8])]) -> HashMap<String, String> {
    entries.iter().map(|(account, abi)| ((*account).to_owned(), STANDARD.encode(abi))).collect()
}
