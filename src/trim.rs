//! Removing what all consumers have read.
