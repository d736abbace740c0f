//! The page, in a real browser.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use parser::capture::serve::ServeOptions;

use super::support::expected::Recording;
use super::support::redis::TestRedis;
use super::support::stage::Stage;
use super::{free_port, served, until_json};

/// The document as the browser has it once the page is in that state; none where there is no browser.
async fn rendered(port: u16, state: &'static str) -> Option<String> {
    let url = format!("http://127.0.0.1:{port}/");
    for _ in 0..10 {
        let url = url.clone();
        let document = tokio::task::spawn_blocking(move || render(&url)).await.expect("rendered")?;
        // On a busy machine the browser can give up before the first answer is there.
        if text(&document, "state") == state {
            return Some(document);
        }
    }
    panic!("the page does not show {state}");
}

/// The document after some seconds of the browser's own time.
fn render(url: &str) -> Option<String> {
    let programs = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let Some(program) = programs.into_iter().find(|program| Path::new(program).exists()) else {
        println!("skipped: chromium is missing (scripts/install-chromium)");
        return None;
    };
    let (document, said) = browse(program, url);
    if !document.is_empty() {
        return Some(document);
    }
    // A browser that shows no page at all says nothing about this one.
    assert!(browse(program, "data:text/html,<p>here</p>").0.is_empty(), "{said}");
    println!("skipped: {program} does not run on this machine: {said}");
    None
}

/// What the browser makes of it, empty if that takes it too long; and what it says.
fn browse(program: &str, url: &str) -> (String, String) {
    let profile = tempfile::tempdir().expect("a folder");
    let output = Command::new("timeout")
        .args(["-k", "5", "60", program])
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--virtual-time-budget=4000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stdout), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The text of the element with that id.
fn text<'d>(document: &'d str, id: &str) -> &'d str {
    let at = document.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}: {document}"));
    let from = document[at..].find('>').expect("its end") + at + 1;
    let to = document[from..].find('<').expect("what follows") + from;
    &document[from..to]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_the_numbers_and_nothing_that_was_slipped_in() {
    let recording = Recording::bundled("fork-240");
    let options = ServeOptions { repeat_from: Some(2), ..ServeOptions::default() };
    let mut stage = Stage::with(&recording.capture, TestRedis::start().await, options).await;
    stage.slow(Duration::from_millis(2));
    let mut client = stage.client().await;
    let hostile = "<img src=x onerror=\"document.title='hit'\">";
    redis::cmd("XGROUP")
        .arg(("CREATE", &stage.keys.events, hostile, "0", "MKSTREAM"))
        .exec_async(&mut client)
        .await
        .expect("XGROUP");
    let port = free_port();
    let parser = stage.parser(&served(port));
    until_json(port, "/state.json", "numbers", |document| {
        document["block"].as_u64() > Some(10)
            && !document["groups"].as_array().expect("groups").is_empty()
            && document["blocks_per_second"].as_f64() > Some(0.0)
            && document["history"]["events"].as_array().is_some_and(|seconds| seconds.len() > 1)
    })
    .await;
    let Some(document) = rendered(port, "catching-up").await else { return };
    let number = |id: &str| text(&document, id).replace(',', "").parse::<f64>();
    assert!(number("block").expect("a block") > 10.0, "{document}");
    assert!(number("events").expect("a speed") > 0.0, "{document}");
    assert!(document.contains("&lt;img src=x onerror="), "the group's name is shown: {document}");
    assert!(!document.contains("<img") && !document.contains("<title>hit"), "{document}");
    for shown in ["d=\"M", "eosio", "publish"] {
        assert!(document.contains(shown), "no {shown}: {document}");
    }
    // Redis goes away: it goes on answering.
    stage.redis.kill();
    until_json(port, "/state.json", "waiting", |document| document["state"] == "waiting-for-redis").await;
    let document = rendered(port, "waiting-for-redis").await.expect("a document");
    assert!(text(&document, "reason").contains("no connection to Redis"), "{document}");
    drop(parser);
}
