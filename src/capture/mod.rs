//! Recorded node traffic.
