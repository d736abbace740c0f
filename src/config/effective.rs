//! How values are written when the effective configuration is printed: as they would stand in the file.

use std::fmt::Display;
use std::time::Duration;

use serde::{Serialize, Serializer};

pub(super) fn shown<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn option<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(T::to_string).serialize(serializer)
}

pub(super) fn zero_for_none<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.unwrap_or(0))
}

pub(super) fn millis<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_millis().serialize(serializer)
}

pub(super) fn seconds<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    Seconds(*value).serialize(serializer)
}

pub(super) fn seconds_list<S: Serializer>(values: &[Duration], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| Seconds(*value)))
}

struct Seconds(Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.subsec_nanos() == 0 {
            serializer.serialize_u64(self.0.as_secs())
        } else {
            serializer.serialize_f64(self.0.as_secs_f64())
        }
    }
}
