//! From frames to transactions.

mod dispatch;
mod hold;
mod intake;

pub use intake::{Intake, IntakeError, Ready};
