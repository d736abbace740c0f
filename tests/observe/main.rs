//! What the parser says of itself, everywhere the same: over HTTP, in Redis, in the log.

#[path = "../support/made.rs"]
mod made;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/mod.rs"]
mod support;

mod page;
mod states;
mod told;

use std::collections::HashMap;
use std::net::TcpListener;

use serde_json::Value;
use support::process::Process;
use support::stage::Stage;
use support::until;

/// A port that was free just now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Lines of a configuration that serve everything on that port.
pub fn served(port: u16) -> String {
    format!("health: {{enabled: true, port: {port}}}\nmetrics: {{enabled: true, port: {port}}}\n")
}

/// Status and body; none if nobody answers.
pub async fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let url = format!("http://127.0.0.1:{port}{path}");
    let asked = tokio::task::spawn_blocking(move || {
        let mut answer = ureq::get(&url).config().http_status_as_error(false).build().call().ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.body_mut().read_to_string().ok()?))
    });
    asked.await.expect("asked")
}

/// Waits until a path answers with JSON that is so.
pub async fn until_json(port: u16, path: &str, what: &str, is: impl Fn(&Value) -> bool) -> (u16, Value) {
    until(what, async || {
        let (status, body) = get(port, path).await?;
        let json = serde_json::from_str(&body).expect("JSON");
        is(&json).then_some((status, json))
    })
    .await
}

/// Waits until it is in that state, and checks that all say so: with its reason.
pub async fn until_state(port: u16, state: &str) -> String {
    let (_, health) = until_json(port, "/health", state, |health| health["state"] == state).await;
    let told = metrics(port).await;
    assert_eq!(told.get(&format!("parser2_state{{state=\"{state}\"}}")), Some(&1.0), "{state}");
    let all = told.iter().filter(|(name, _)| name.starts_with("parser2_state{"));
    assert_eq!(all.map(|(_, value)| value).sum::<f64>(), 1.0);
    let (_, document) = until_json(port, "/state.json", state, |document| document["state"] == state).await;
    assert_eq!(document["since"], health["since"]);
    health["reason"].as_str().expect("a reason").to_owned()
}

/// All metrics by name and labels.
pub async fn metrics(port: u16) -> HashMap<String, f64> {
    let (status, text) = get(port, "/metrics").await.expect("an answer");
    assert_eq!(status, 200);
    let value = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("name and value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(value).collect()
}

/// The report in Redis.
pub async fn report(stage: &Stage) -> Option<Value> {
    let text: Option<String> =
        redis::cmd("GET").arg(&stage.keys.state).query_async(&mut stage.client().await).await.expect("GET");
    text.map(|text| serde_json::from_str(&text).expect("JSON"))
}

/// The log's lines that say a state, in order.
pub fn said_states(process: &Process) -> Vec<String> {
    let log = process.log();
    let states = log.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let message = line["message"].as_str()?;
        let changed = !message.starts_with("still") && message != "published";
        line["state"].as_str().filter(|_| changed).map(str::to_owned)
    });
    states.collect()
}
