//! The parts of an object that are written separately.

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The resource itself.
    Main,
    /// The status subresource.
    Status,
}
