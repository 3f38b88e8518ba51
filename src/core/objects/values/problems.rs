//! What is wrong with an object of a tenant, as its status reports it.

use super::bounds::cut;

/// The most problems that are reported for an object.
pub const MOST_PROBLEMS: usize = 8;
/// The bytes of the longest problem.
const LONGEST: usize = 300;

/// The problem with a field, and the fix.
pub(crate) type Problem = String;

/// The problems with the fields of a `spec`, at most [`MOST_PROBLEMS`].
#[derive(Default)]
pub(crate) struct Problems(pub Vec<Problem>);

impl Problems {
    /// Returns the value of a field of `spec`, or records why it could not be read.
    pub fn note<T>(&mut self, field: &str, read: Result<T, Problem>) -> Option<T> {
        read.map_err(|problem| {
            if self.0.len() < MOST_PROBLEMS {
                self.0
                    .push(cut(&format!("spec.{field}: {problem}"), LONGEST));
            }
        })
        .ok()
    }
}
