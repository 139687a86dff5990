//! A day of virtual time and millions of calls by callers who aim at the edges: the properties that
//! `tests/properties/long` has among the other tests, for longer.
//!
//! Takes minutes, and is run by `make properties-long`.

mod model;

mod properties {
    pub mod long;
}

/// How long the properties run.
const LENGTH: properties::long::Length =
    properties::long::Length { minutes: 24 * 60, calls: 250_000, seeds: 4 };
