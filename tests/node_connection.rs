//! The connection to a node, against served captures and real sockets.

mod captures;

use std::time::Duration;

use captures::{made_up, options, plain, position, read, recorded, serve, standing};
use futures_util::{SinkExt, StreamExt};
use parser::block::Checksum;
use parser::capture::serve::{Faults, Listener, ServeOptions, Server};
use parser::ship::node::{ExpectedChain, Node, NodeError, NodeOptions};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test(flavor = "multi_thread")]
async fn every_capture_comes_as_recorded_with_any_window() {
    for (name, windows) in
        [("mixed", &[1, 2, 64][..]), ("spring", &[1, 2, 64]), ("fork", &[1, 2, 64]), ("load", &[64])]
    {
        let Some(capture) = recorded(name) else { continue };
        let server = serve(&capture, ServeOptions::default()).await;
        for &window in windows {
            let options = NodeOptions { window, ..options(&[server.url()]) };
            let frames = read(options, 1, capture.frames.len()).await.expect("all frames");
            assert!(frames == capture.frames, "{name}, window {window}");
        }
    }
}

#[tokio::test]
async fn without_an_ack_no_more_than_the_window_is_sent() {
    let server = serve(&plain(100), ServeOptions::default()).await;
    let node = NodeOptions { window: 2, ..options(&[server.url()]) };
    let connection = Node::new(node).connect().await.expect("connected");
    let (mut frames, acks) = connection.request(1, None, &[]).await.expect("asked");
    for _ in 0..2 {
        frames.next().await.expect("a block");
    }
    // An ack while the receiver waits goes out at once.
    let (third, ()) = tokio::join!(frames.next(), async { acks.ack(1) });
    assert_eq!(third.expect("a block").result.this_block, Some(position(3, 0)));
    assert!(server.frames() <= 3, "{} frames", server.frames());
    acks.clone().ack(5);
    for num in 4..=8 {
        let frame = frames.next().await.expect("a block");
        assert_eq!(frame.result.this_block, Some(position(num, 0)));
    }
    assert!(server.frames() <= 8, "{} frames", server.frames());
}

#[tokio::test]
async fn start_and_stop_are_inclusive() {
    let server = serve(&plain(9), ServeOptions::default()).await;
    let silence = Duration::from_millis(20);
    let node = NodeOptions { silence, timeout: silence, ..options(&[server.url()]) };
    let connection = Node::new(node).connect().await.expect("connected");
    assert_eq!(connection.status().head, position(9, 0));
    assert_eq!(connection.chain_id(), Checksum([7; 32]));
    let (mut frames, _) = connection.request(5, Some(7), &[]).await.expect("asked");
    for num in 5..=7 {
        assert_eq!(frames.next().await.expect("a block").result.this_block, Some(position(num, 0)));
    }
    // Nothing more comes, and that is no reason for alarm.
    assert!(tokio::time::timeout(10 * silence, frames.next()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_at_random_bytes_every_frame_comes_once_and_in_order() {
    let Some(capture) = recorded("fork") else { return };
    let faults = Faults { cut_after_bytes: Some(0..200_000), ..Faults::default() };
    for fragment_bytes in [None, Some(4096)] {
        let serving = ServeOptions { faults: faults.clone(), fragment_bytes, ..ServeOptions::default() };
        let server = serve(&capture, serving).await;
        let mut node = Node::new(options(&[server.url()]));
        let mut read = Vec::new();
        while read.len() < capture.frames.len() {
            let connection = node.connect().await.expect("connected");
            let positions = standing(&read, &capture.protocol);
            let start = positions.last().map_or(1, |last| last.num + 1);
            let Ok((mut frames, acks)) = connection.request(start, None, &positions).await else { continue };
            while let Ok(frame) = frames.next().await {
                read.push(frame.bytes);
                acks.ack(1);
                if read.len() == capture.frames.len() {
                    break;
                }
            }
        }
        assert!(read == capture.frames);
        assert!(server.connections() > 10, "{} connections", server.connections());
    }
}

#[tokio::test]
async fn a_closed_connection_is_told_and_made_again() {
    let faults = Faults { drop_after_frames: Some(3), connections: Some(1), ..Faults::default() };
    let server = serve(&plain(9), ServeOptions { faults, ..ServeOptions::default() }).await;
    let mut node = Node::new(options(&[server.url()]));
    let connection = node.connect().await.expect("connected");
    let (mut frames, _) = connection.request(1, None, &[]).await.expect("asked");
    for _ in 0..3 {
        frames.next().await.expect("a block");
    }
    let error = frames.next().await.expect_err("closed");
    assert!(matches!(error, NodeError::Closed(_)) && !error.is_fatal(), "{error}");

    server.set_faults(Faults { refuse: true, connections: Some(4), ..Faults::default() });
    let connection = node.connect().await.expect("connected in the end");
    let (mut frames, _) = connection.request(4, None, &[position(3, 0)]).await.expect("asked");
    assert_eq!(frames.next().await.expect("a block").result.this_block, Some(position(4, 0)));
    assert_eq!(server.connections(), 6);
}

#[tokio::test]
async fn attempts_can_be_limited() {
    let refuse = Faults { refuse: true, ..Faults::default() };
    let server = serve(&plain(2), ServeOptions { faults: refuse, ..ServeOptions::default() }).await;
    let node = NodeOptions { max_attempts: Some(3), ..options(&[server.url()]) };
    let error = Node::new(node).connect().await.err().expect("gave up");
    assert!(
        error.is_fatal() && error.to_string().contains("gave up after 3 attempts (`reconnect.maxAttempts`)")
    );
    assert_eq!(server.connections(), 3);
    let error = Node::new(options(&[])).connect().await.err().expect("nothing to connect to");
    assert_eq!(error.to_string(), "no endpoint is given");
}

#[tokio::test]
async fn a_node_that_stops_sending_is_found_out() {
    let faults = Faults { stall_after_frames: Some(4), ..Faults::default() };
    let short = Duration::from_millis(50);
    // In the middle of the chain, and at its head while that moves on.
    for count in [9, 4] {
        let server =
            serve(&plain(count), ServeOptions { faults: faults.clone(), ..ServeOptions::default() }).await;
        let node = NodeOptions { silence: short, timeout: short, ..options(&[server.url()]) };
        let connection = Node::new(node).connect().await.expect("connected");
        let (mut frames, _) = connection.request(1, None, &[]).await.expect("asked");
        for _ in 0..4 {
            frames.next().await.expect("a block");
        }
        let error = frames.next().await.expect_err("silent");
        assert!(matches!(error, NodeError::Silent(_)) && !error.is_fatal(), "{error}");
        assert!(error.to_string().contains("block 5 is wanted"), "{error}");
    }
}

#[tokio::test]
async fn a_chain_that_stands_still_is_waited_for() {
    let server = serve(&plain(3), ServeOptions::default()).await;
    let short = Duration::from_millis(20);
    let node = NodeOptions { silence: short, timeout: 10 * short, window: 3, ..options(&[server.url()]) };
    let connection = Node::new(node).connect().await.expect("connected");
    let (mut frames, acks) = connection.request(1, None, &[]).await.expect("asked");
    for _ in 0..3 {
        frames.next().await.expect("a block");
    }
    // Without credit there is nothing to wait for, with credit the node says that there is nothing.
    assert!(tokio::time::timeout(10 * short, frames.next()).await.is_err());
    acks.ack(3);
    assert!(tokio::time::timeout(50 * short, frames.next()).await.is_err());
}

#[tokio::test]
async fn a_wrong_chain_is_fatal_unless_another_endpoint_is_right() {
    let right = serve(&plain(3), ServeOptions::default()).await;
    let mut other = plain(3);
    other.status.chain_id = Some(Checksum([9; 32]));
    let wrong = serve(&other, ServeOptions::default()).await;
    let chain = Some(ExpectedChain::configured(Checksum([7; 32])));

    let node = NodeOptions { chain: chain.clone(), ..options(&[wrong.url()]) };
    let error = Node::new(node).connect().await.err().expect("wrong chain");
    let text = error.to_string();
    assert!(error.is_fatal() && text.starts_with(&format!("{}: ", wrong.url())), "{text}");
    assert!(
        text.contains(&"09".repeat(32)) && text.contains(&"07".repeat(32)) && text.contains("chain.id"),
        "{text}"
    );

    let node = NodeOptions { chain, ..options(&[wrong.url(), right.url()]) };
    let connection = Node::new(node).connect().await.expect("the second one");
    assert_eq!(connection.endpoint().to_string(), right.url());
}

#[tokio::test]
async fn a_node_that_does_not_tell_its_chain_needs_the_option() {
    let mut silent = plain(3);
    silent.status.chain_id = None;
    let server = serve(&silent, ServeOptions::default()).await;
    let error = Node::new(options(&[server.url()])).connect().await.err().expect("no chain id");
    assert!(error.is_fatal() && error.to_string().contains("give it as `chain.id`"), "{error}");
    let chain = Some(ExpectedChain::configured(Checksum([3; 32])));
    let node = NodeOptions { chain, ..options(&[server.url()]) };
    assert_eq!(Node::new(node).connect().await.expect("connected").chain_id(), Checksum([3; 32]));
}

#[tokio::test]
async fn an_unknown_layout_is_refused_by_name() {
    let mut other = plain(3);
    other.abi = other
        .abi
        .replace(r#""types": ["table_delta_v0"]"#, r#""types": ["table_delta_v0", "table_delta_v1"]"#);
    let server = serve(&other, ServeOptions::default()).await;
    let error = Node::new(options(&[server.url()])).connect().await.err().expect("refused");
    assert!(error.is_fatal() && error.to_string().contains("`table_delta_v1`"), "{error}");
}

#[tokio::test]
async fn a_message_over_the_limit_names_the_option() {
    // In one WebSocket frame the frame limit is met, in several the message limit.
    for fragment_bytes in [None, Some(30_000)] {
        let mut capture = plain(3);
        capture.frames[1] = parser::capture::edit::change(&capture.frames[1], &capture.protocol, |result| {
            result.deltas = Some(vec![0; 100_000].into());
        });
        let server = serve(&capture, ServeOptions { fragment_bytes, ..ServeOptions::default() }).await;
        let limited = |max_message_bytes| NodeOptions { max_message_bytes, ..options(&[server.url()]) };
        let error = read(limited(99_999), 1, 3).await.expect_err("too large");
        assert!(error.is_fatal() && matches!(error, NodeError::TooLarge { limit: 99_999, .. }), "{error}");
        assert!(error.to_string().contains("`maxMessageBytes` is 99999: raise it"), "{error}");
        assert_eq!(read(limited(capture.frames[1].len()), 1, 3).await.expect("fits"), capture.frames);
    }
}

#[tokio::test]
async fn a_socket_file_is_a_node_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("ship.sock");
    let listener = Listener::bind(&format!("unix:{}", path.display())).await.expect("bound");
    let capture = plain(5);
    let server = Server::start(&capture, listener, ServeOptions::default()).expect("served");
    assert_eq!(server.url(), format!("ws+unix://{}", path.display()));
    assert_eq!(read(options(&[server.url()]), 1, 5).await.expect("all"), capture.frames);
}

#[tokio::test]
async fn several_clients_read_at_once_and_one_after_the_other() {
    let capture = made_up(&[(1, 0), (2, 0), (3, 0), (3, 1), (4, 1)], 1);
    let server = serve(&capture, ServeOptions::default()).await;
    for _ in 0..2 {
        let (one, two) =
            tokio::join!(read(options(&[server.url()]), 1, 5), read(options(&[server.url()]), 4, 1));
        assert_eq!(one.expect("all"), capture.frames);
        assert_eq!(two.expect("the last"), capture.frames[4..]);
    }
}

/// A node of its own kind: sends these messages behind the status, then says what the client sends.
async fn scripted(messages: Vec<Message>) -> (String, tokio::task::JoinHandle<Vec<Message>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("ws://{}", listener.local_addr().expect("bound"));
    let capture = plain(1);
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut socket = tokio_tungstenite::accept_async(stream).await.expect("a WebSocket client");
        socket.send(Message::text(capture.abi.clone())).await.expect("sent");
        let mut received = vec![socket.next().await.expect("status request").expect("read")];
        let status = capture.status.encode(&capture.protocol);
        socket.send(Message::Binary(status)).await.expect("sent");
        received.push(socket.next().await.expect("blocks request").expect("read"));
        for message in messages {
            socket.send(message).await.expect("sent");
        }
        while let Some(Ok(message)) = socket.next().await {
            received.push(message);
        }
        received
    });
    (url, task)
}

#[tokio::test]
async fn pings_are_answered_amid_blocks() {
    let block = plain(1).frames[0].clone();
    let messages = vec![
        Message::Ping("one".into()),
        Message::Binary(block.clone()),
        Message::Ping("two".into()),
        Message::Binary(block),
    ];
    let (url, node) = scripted(messages).await;
    read(options(&[&url]), 1, 2).await.expect("two blocks");
    let received = node.await.expect("ended");
    assert!(received.contains(&Message::Pong("one".into())), "{received:?}");
}

#[tokio::test]
async fn what_does_not_belong_there_is_named() {
    for (message, part) in [
        (Message::text("hello there"), "a text frame instead of a block: \"hello there\""),
        (Message::Binary(vec![9, 9].into()), "message type 9 (no type of the node's protocol)"),
        (Message::Binary(vec![1, 2].into()), "get_blocks_result_v0: 4 bytes needed at byte 1"),
    ] {
        let (url, _node) = scripted(vec![message]).await;
        let error = read(options(&[&url]), 1, 1).await.expect_err("no block");
        assert!(!error.is_fatal() && error.to_string().contains(part), "{error}");
    }
}
