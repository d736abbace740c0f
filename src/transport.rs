//! Byte streams to the node and to Redis: TCP, TLS over TCP, and unix sockets.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Where to connect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// Host and port.
    Tcp(String, u16),
    /// Host and port, with TLS; the certificate must be valid for the host by the system's roots
    /// (or those in `SSL_CERT_FILE` / `SSL_CERT_DIR`).
    Tls(String, u16),
    /// A socket file.
    Unix(PathBuf),
}

/// A connected stream, whatever its kind.
pub type Stream = Box<dyn Duplex>;

/// Both directions of a stream.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Connects. Set a time limit around it.
pub async fn connect(target: &Target) -> io::Result<Stream> {
    match target {
        Target::Tcp(host, port) => Ok(Box::new(tcp(host, *port).await?)),
        Target::Tls(host, port) => {
            let name = ServerName::try_from(host.clone())
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{host}: {e}")))?;
            let connector = TlsConnector::from(tls_config()?);
            Ok(Box::new(connector.connect(name, tcp(host, *port).await?).await?))
        }
        Target::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn tls_config() -> io::Result<Arc<ClientConfig>> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(io::Error::other(
            "no trusted TLS certificates found on this machine (install ca-certificates, or set SSL_CERT_FILE)",
        ));
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
}
