//! How long what is read of an object may be, by what it is for. The API server bounds the object
//! alone, at 1.5 MB and more.
//!
//! What is longer is read as absent and remembered, as what has a wrong type; messages, which are
//! only shown, are cut.

/// A text without a bound of its own. Names have 253 bytes at most, references to images that can
/// be pulled 1024 (see [`crate::image::ImageReference`]).
pub(crate) const TEXT: usize = 1024;
/// A path: Linux opens none that is longer.
pub(crate) const PATH: usize = 4096;
/// A word of a command, and the value of a variable: Linux takes none that is longer.
pub(crate) const ARGUMENT: usize = 128 << 10;
/// What a node or a person says. Events have room for as much.
pub const MESSAGE: usize = 1024;
/// An annotation in which swaplet itself has written something down, about every container of a
/// pod.
pub(crate) const RECORD: usize = 128 << 10;
/// Items of a list without a bound of its own, and members of a map.
pub(crate) const ITEMS: usize = 1024;
/// Variables of a container.
pub(crate) const VARIABLES: usize = 8192;
/// Mounts of a container, and the bytes of their paths.
pub(crate) const MOUNTS: usize = 1000;
pub(crate) const MOUNT_PATHS: usize = 64 << 10;
/// What is kept of a pod: a hundred times what honest ones need.
pub(crate) const POD: usize = 128 << 10;

/// The longest time that an object can ask for, in seconds: a year.
const SECONDS: i64 = 365 * 24 * 3600;

/// No wait is negative, and what is longer than a year is as long.
pub(crate) fn seconds(written: i64) -> u32 {
    u32::try_from(written.clamp(0, SECONDS)).unwrap_or_default()
}

/// At most so many bytes, cut between characters.
#[must_use]
pub fn cut(text: &str, bytes: usize) -> String {
    const MARK: &str = "...";
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abc...");
        assert_eq!(
            cut(&"\u{e9}".repeat(10), 10),
            format!("{}...", "\u{e9}".repeat(3))
        );
    }
}
