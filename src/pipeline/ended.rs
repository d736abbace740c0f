//! Why a turn ended, why the program ends, and what follows from what.

use super::intake::IntakeError;
use super::session::FeedError;
use crate::publish::Failure;
use crate::ship::node::NodeError;

/// Why the program ends.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration does not fit the node or what lies in Redis: exit status 2.
    #[error("{0}")]
    Unfit(String),
    /// It cannot go on: exit status 1.
    #[error("{0}")]
    Failed(String),
}

/// Why a turn ended.
pub(super) enum TurnError {
    Redis(Failure),
    Feed(FeedError),
}

/// Why the writer ended though there was more to write.
pub(super) fn writer_ended(ended: Result<Result<(), Failure>, tokio::task::JoinError>) -> Failure {
    match ended {
        Ok(Err(failure)) => failure,
        Ok(Ok(())) => Failure::Fatal("the decoding threads have stopped".to_owned()),
        Err(error) => Failure::Fatal(format!("the writer has stopped: {error}")),
    }
}

impl From<Failure> for TurnError {
    fn from(failure: Failure) -> TurnError {
        TurnError::Redis(failure)
    }
}

impl From<FeedError> for TurnError {
    fn from(error: FeedError) -> TurnError {
        TurnError::Feed(error)
    }
}

impl From<NodeError> for RunError {
    fn from(error: NodeError) -> RunError {
        let cause = match &error {
            NodeError::Unusable { source, .. } => source,
            _ => &error,
        };
        match cause {
            NodeError::WrongChain { .. } | NodeError::NoChainId | NodeError::NoEndpoint => {
                RunError::Unfit(error.to_string())
            }
            _ => RunError::Failed(error.to_string()),
        }
    }
}

impl From<FeedError> for RunError {
    fn from(error: FeedError) -> RunError {
        match error {
            FeedError::Node(error) => error.into(),
            FeedError::Start(_)
            | FeedError::StartAboveStop { .. }
            | FeedError::Intake(IntakeError::Start { .. }) => RunError::Unfit(error.to_string()),
            _ => RunError::Failed(error.to_string()),
        }
    }
}
