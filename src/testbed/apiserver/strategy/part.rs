//! Parts of an object that are written apart.

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The resource itself.
    Main,
    /// The status subresource.
    Status,
}
