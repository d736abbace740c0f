//! What the parser tells over HTTP: `/health`, `/ready`, `/metrics`, and a page for people. `docs/metrics.md` describes it.

mod document;
mod health;
mod page;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::info;

use crate::config::Config;
use crate::metrics::CONTENT_TYPE;
use crate::monitor::Monitor;
use page::Page;

/// Connections answered at once; others wait. Without a bound whoever reaches the port could use up the process' file
/// descriptors, and the parser could connect to its node no more.
const CONNECTIONS: usize = 64;

/// A connection, with its one request and answer, is given up after that.
const CONNECTION_LIMIT: Duration = Duration::from_secs(5);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error(
    "{section}.host, {section}.port: failed to listen on {host}:{port}: {error}{}",
    if .error.kind() == io::ErrorKind::AddrInUse { ". Choose another port, or stop what has it" } else { "" }
)]
pub struct ListenError {
    section: &'static str,
    host: String,
    port: u16,
    error: io::Error,
}

/// The servers, listening and not answering yet.
#[derive(Debug)]
pub struct Servers(Vec<(TcpListener, Content)>);

/// What a server has.
#[derive(Debug, Clone, Copy)]
struct Content {
    health: bool,
    metrics: bool,
}

#[derive(Clone)]
struct Context {
    monitor: Arc<Monitor>,
    lag_threshold: Duration,
    page: Arc<Page>,
}

// === impl Servers ===

impl Servers {
    /// Listens where the configuration says; one server has all where the addresses are the same.
    pub async fn bind(config: &Config) -> Result<Servers, ListenError> {
        let (health, metrics) = (&config.health, &config.metrics);
        let together =
            health.enabled && metrics.enabled && (&health.host, health.port) == (&metrics.host, metrics.port);
        let mut servers = Vec::new();
        if health.enabled {
            let listener = listen("health", &health.host, health.port).await?;
            servers.push((listener, Content { health: true, metrics: together }));
        }
        if metrics.enabled && !together {
            let listener = listen("metrics", &metrics.host, metrics.port).await?;
            servers.push((listener, Content { health: false, metrics: true }));
        }
        Ok(Servers(servers))
    }

    /// Answers until dropped.
    pub fn start(self, monitor: &Arc<Monitor>, lag_threshold: Duration) -> JoinSet<()> {
        let context = Context { monitor: monitor.clone(), lag_threshold, page: Arc::new(Page::new()) };
        let mut running = JoinSet::new();
        for (listener, content) in self.0 {
            running.spawn(serve(listener, content.routes(context.clone())));
        }
        running
    }
}

/// Answers, for ever.
async fn serve(mut listener: TcpListener, routes: Router) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    // They end with this.
    let mut connections = JoinSet::new();
    while let Ok(permit) = free.clone().acquire_owned().await {
        let (stream, _) = Listener::accept(&mut listener).await;
        while connections.try_join_next().is_some() {}
        let service = TowerToHyperService::new(routes.clone());
        connections.spawn(async move {
            let answered =
                http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
            // Who is too slow, or leaves, is not waited for.
            let _ = timeout(CONNECTION_LIMIT, answered).await;
            drop(permit);
        });
    }
}

async fn listen(section: &'static str, host: &str, port: u16) -> Result<TcpListener, ListenError> {
    let failed = |error| ListenError { section, host: host.to_owned(), port, error };
    let listener = TcpListener::bind((host, port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    info!(what = section, url = %format_args!("http://{address}"), "serving over HTTP");
    Ok(listener)
}

// === impl Content ===

impl Content {
    fn routes(self, context: Context) -> Router {
        let mut routes = Router::new();
        if self.health {
            routes = routes
                .route("/", get(page))
                .route("/state.json", get(document))
                .route("/health", get(health))
                .route("/ready", get(ready));
        }
        if self.metrics {
            routes = routes.route("/metrics", get(metrics));
        }
        routes.with_state(context)
    }
}

async fn page(Shared(context): Shared<Context>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, &context.page.policy),
    ];
    (headers, context.page.html.clone()).into_response()
}

async fn document(Shared(context): Shared<Context>) -> Response {
    let document = document::document(&context.monitor, context.lag_threshold);
    ([(header::CACHE_CONTROL, "no-store")], Json(document)).into_response()
}

async fn health(Shared(context): Shared<Context>) -> Response {
    answer(health::health(&context.monitor.view(), context.lag_threshold))
}

async fn ready(Shared(context): Shared<Context>) -> Response {
    answer(health::ready(&context.monitor.view(), context.lag_threshold))
}

fn answer(health: health::Health) -> Response {
    let code = if health.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, [(header::CACHE_CONTROL, "no-store")], Json(health)).into_response()
}

async fn metrics(Shared(context): Shared<Context>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], context.monitor.metrics_text()).into_response()
}
