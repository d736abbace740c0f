//! What the tests of the whole pipeline share: a node, a Redis, the parser as a process, and what it wrote.
#![allow(dead_code)] // Not every test uses all of it.

#[path = "../captures/mod.rs"]
pub mod captures;
pub mod expected;
pub mod json;
pub mod process;
pub mod redis;
pub mod stage;
pub mod written;

use std::time::{Duration, Instant};

/// Long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Looks again and again until there is something.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Whether more was asked for than runs each time.
pub fn on_demand() -> bool {
    std::env::var_os("PARSER_TEST_ROUNDS").is_some()
}

/// How often a test with chance in it disturbs a run: few times by default, more with `PARSER_TEST_ROUNDS`.
pub fn rounds(few: usize) -> usize {
    std::env::var("PARSER_TEST_ROUNDS").map_or(few, |rounds| rounds.parse().expect("a number"))
}

/// A source of chance whose seed is printed; `PARSER_TEST_SEED` sets it.
pub fn chance() -> fastrand::Rng {
    let seed = std::env::var("PARSER_TEST_SEED")
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("PARSER_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
