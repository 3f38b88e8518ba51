//! Why an image was not pulled, in the words of the runtimes.

/// As containerd says it, and as CRI-O does.
pub type Refusal = [&'static str; 2];
pub const MISSING: Refusal = ["not found", "manifest unknown"];
pub const FORBIDDEN: Refusal = ["authorization failed", "authentication required"];
pub const LIMITED: Refusal = ["429 Too Many Requests", "StatusCode: 429"];
pub const BROKEN: Refusal = ["500 Internal Server Error", "StatusCode: 500"];
pub const STOPPED: Refusal = ["connection refused", "the registry is unavailable"];

/// Whether one of the runtimes would say it like this.
pub fn is_said(refusal: Refusal, words: &str) -> bool {
    refusal.iter().any(|said| words.contains(said))
}
