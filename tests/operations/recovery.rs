//! The recoveries: something is broken, then the page is followed, then all is whole.

use crate::machine::Machine;
use crate::support::expected::Recording;
use crate::support::stage::undisturbed;

#[tokio::test(flavor = "multi_thread")]
async fn redis_lost_its_data() {
    let capture = Recording::bundled("mixed-100").capture;
    let machine = Machine::new(&capture, "startBlock: first").await;
    machine.quietly("systemctl start parser");
    machine.call("redis-cli FLUSHALL");
    machine.follow("Redis lost its data, and there is no copy");
    machine.written().await.assert_same(&undisturbed(&capture, "").await, "published anew");
}
