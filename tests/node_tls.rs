//! `wss://`: a node behind TLS, whose certificate is trusted through `SSL_CERT_FILE`.

mod captures;

use std::process::Command;
use std::sync::Arc;

use captures::{options, plain, read, serve};
use parser::capture::serve::ServeOptions;
use parser::ship::node::{Node, NodeOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// Takes TLS off what comes in and passes it on to the address.
async fn tls_in_front_of(address: String, key: rcgen::CertifiedKey<rcgen::KeyPair>) -> u16 {
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()).into();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![key.cert.der().clone()], private);
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("a usable certificate")));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut client) = acceptor.accept(stream).await else { continue };
            let mut node = TcpStream::connect(&address).await.expect("the served capture");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut node).await });
        }
    });
    port
}

// The roots are read once in a process: the two halves run in processes of their own.
#[test]
fn a_node_behind_tls_is_read_if_its_certificate_is_trusted() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let pair = file("key", key.signing_key.serialize_pem());
    let cert = file("cert", key.cert.pem());
    let stranger = file("stranger", other.cert.pem());
    for (trusted, test) in [(&cert, "in_a_process_that_trusts_it"), (&stranger, "in_a_process_that_does_not")]
    {
        let status = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", test, "--nocapture"])
            .env("SSL_CERT_FILE", trusted)
            .env_remove("SSL_CERT_DIR")
            .env("TEST_KEY", &pair)
            .status()
            .expect("started");
        assert!(status.success(), "{test}");
    }
}

/// A served capture behind the key that the test above made; none when not started by it.
async fn served() -> Option<(parser::capture::serve::Server, String)> {
    let path = std::env::var_os("TEST_KEY")?;
    let pem = std::fs::read_to_string(path).expect("readable");
    let signing_key = rcgen::KeyPair::from_pem(&pem).expect("a key");
    let cert = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("parameters");
    let cert = cert.self_signed(&signing_key).expect("a certificate");
    let key = rcgen::CertifiedKey { cert, signing_key };

    let server = serve(&plain(20), ServeOptions::default()).await;
    let port = tls_in_front_of(server.url().trim_start_matches("ws://").to_owned(), key).await;
    Some((server, format!("wss://localhost:{port}")))
}

#[tokio::test]
async fn in_a_process_that_trusts_it() {
    let Some((_server, url)) = served().await else { return };
    assert_eq!(read(options(&[&url]), 1, 20).await.expect("all"), plain(20).frames);
}

#[tokio::test]
async fn in_a_process_that_does_not() {
    let Some((_server, url)) = served().await else { return };
    let once = NodeOptions { max_attempts: Some(1), ..options(&[&url]) };
    let error = Node::new(once).connect().await.err().expect("not trusted").to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
}
