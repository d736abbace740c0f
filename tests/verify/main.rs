//! `parser verify`: whole streams pass, and whatever is done to one is named.

mod harm;
mod node;
mod published;
#[path = "../support/mod.rs"]
mod support;

use published::Published;

#[tokio::test]
async fn whole_streams_of_all_recordings_pass() {
    for name in ["mixed", "fork", "spring"] {
        for further in ["", "publish: {blocks: true, notifications: true}", "streamIds: auto"] {
            let Some(published) = Published::new(name, further).await else { continue };
            let mut client = published.client().await;
            let length: u64 =
                redis::cmd("XLEN").arg(&published.keys.events).query_async(&mut client).await.expect("XLEN");
            let report = published.good(&[]).await;
            assert_eq!(report["entries"], length, "{name} {further}");
            let all = further.contains("blocks");
            assert_eq!(report["unproven"].as_array().expect("a list").is_empty(), all, "{report:#}");
        }
    }
}

#[tokio::test]
async fn a_range_is_looked_at_alone() {
    let published = Published::demo("").await;
    let report = published.good(&["--from", "50", "--to", "60"]).await;
    assert_eq!(
        (&report["first_block"], &report["last_block"], &report["blocks"]),
        (&50.into(), &60.into(), &11.into())
    );
    let report = published.good(&["--from", "119", "--to", "122"]).await;
    assert_eq!((&report["blocks"], &report["forks"]), (&6.into(), &1.into()));

    // More than there is.
    let last = published.entries().await.last().expect("an entry").block();
    let (status, report) = published.verify(&["--from", "200", "--to", &(last + 1).to_string()]).await;
    assert_eq!((status, &report["counts"]["missing_block"]), (1, &1.into()));

    let (status, report) = published.verify(&["--from", "5000"]).await;
    assert_eq!(status, 1);
    assert!(
        report["findings"][0]["message"].as_str().is_some_and(|text| text == "block 5000 is not published")
    );

    // What is trimmed is said, and is no fault.
    redis::cmd("XTRIM")
        .arg((&published.keys.events, "MINID", "100-3"))
        .exec_async(&mut published.client().await)
        .await
        .expect("XTRIM");
    let report = published.good(&[]).await;
    let unproven = report["unproven"].to_string();
    assert!(unproven.contains("begins with entry 100-3"), "{unproven}");

    // A fault elsewhere is none here.
    let mut entries = published.entries().await;
    entries.retain(|entry| entry.block() != 150);
    published.put(&entries).await;
    published.wrong(&["missing_block"]).await;
    published.good(&["--from", "160"]).await;
    published.good(&["--to", "149"]).await;
    let (status, _) = published.verify(&["--from", "150", "--to", "150"]).await;
    assert_eq!(status, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_stream_is_told_from_one_that_is_gone() {
    let published = Published::demo("").await;
    let mut client = published.client().await;
    redis::cmd("XTRIM")
        .arg((&published.keys.events, "MAXLEN", 0))
        .exec_async(&mut client)
        .await
        .expect("XTRIM");
    let report = published.good(&[]).await;
    assert!(report["unproven"].to_string().contains("all are trimmed"), "{report:#}");
    redis::cmd("DEL").arg(&published.keys.events).exec_async(&mut client).await.expect("DEL");
    let report = published.wrong(&["wrong_end"]).await;
    let message = report["findings"][0]["message"].as_str().expect("text");
    assert!(message.contains(&published.keys.events), "{message}");
    redis::cmd("DEL")
        .arg((&published.keys.sync, &published.keys.blocks))
        .exec_async(&mut client)
        .await
        .expect("DEL");
    let report = published.good(&[]).await;
    assert!(report["unproven"].to_string().contains("nothing is published"), "{report:#}");
}
