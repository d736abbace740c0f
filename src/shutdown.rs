//! Stopping in good order: the first SIGINT or SIGTERM asks everything to finish, a second one ends at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::logging;

/// Tells whether the program was asked to stop. Clones all tell the same.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// Asks everybody who holds the [`Shutdown`] to stop.
#[derive(Debug)]
pub struct Stop(watch::Sender<bool>);

// === impl Shutdown ===

impl Shutdown {
    /// A pair of its own, without signals.
    pub fn new() -> (Stop, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (Stop(sender), Shutdown(receiver))
    }

    /// Listens for SIGINT and SIGTERM from now on.
    pub fn on_signals() -> io::Result<Shutdown> {
        let (stop, shutdown) = Shutdown::new();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::spawn(async move {
            let mut next = async || {
                tokio::select! {
                    _ = interrupt.recv() => "SIGINT",
                    _ = terminate.recv() => "SIGTERM",
                }
            };
            let signal = next().await;
            stop.stop();
            info!(signal, "stopping: what is in flight is finished first");
            let signal = next().await;
            warn!(signal, "ending at once");
            logging::flush();
            std::process::exit(1);
        });
        Ok(shutdown)
    }

    /// Returns once the program is asked to stop.
    pub async fn requested(&self) {
        let mut receiver = self.0.clone();
        let asked = receiver.wait_for(|asked| *asked).await.is_ok();
        if !asked {
            // Nobody is left who could ask.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the program was asked to stop.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}

// === impl Stop ===

impl Stop {
    /// Asks to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}
