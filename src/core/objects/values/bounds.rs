//! The bounds of the values that are read of an object, by their use. The API server bounds only
//! the object as a whole, at 1.5 MB and more.
//!
//! A longer value is read as absent and recorded; messages, which are only shown, are cut.

/// The bytes of a text without a bound of its own. Names have 253 bytes at most, references to
/// images that can be pulled 1024 (see [`crate::image::ImageReference`]).
pub const TEXT: usize = 1024;
/// The bytes of a path: Linux opens none that is longer.
pub(crate) const PATH: usize = 4096;
/// The bytes of a word of a command, or of a variable's value: Linux takes none that is longer.
pub(crate) const ARGUMENT: usize = 128 << 10;
/// The bytes of a message of a node or a person. Events have room for as much.
pub const MESSAGE: usize = 1024;
/// The bytes of an annotation in which swaplet itself keeps records about all containers of a pod.
pub(crate) const RECORD: usize = 128 << 10;
/// The bytes of a selector that is sent in the URL of a list: proxies take URLs of 8 KiB, some of
/// its characters are escaped there, and honest ones have a few labels.
pub(crate) const SELECTOR: usize = 4096;
/// The items of a list without a bound of its own, and the members of a map.
pub(crate) const ITEMS: usize = 1024;
/// The variables of a container.
pub(crate) const VARIABLES: usize = 8192;
/// The mounts of a container, and the bytes of their paths.
pub(crate) const MOUNTS: usize = 1000;
pub(crate) const MOUNT_PATHS: usize = 64 << 10;
/// The bytes that are cached of a pod: a hundred times what ordinary ones need.
pub(crate) const POD: usize = 128 << 10;

/// The longest time that an object can set, in seconds: a year.
const SECONDS: i64 = 365 * 24 * 3600;

/// Limits a wait in seconds to the range from zero to a year.
pub(crate) fn seconds(written: i64) -> u32 {
    u32::try_from(written.clamp(0, SECONDS)).unwrap_or_default()
}

/// Returns at most this many bytes of a text, cut between characters and marked with `...`.
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
