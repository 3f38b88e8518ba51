//! The parser of `$(NAME)` references in a text.

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Text that stays as it is.
    Text(&'a str),
    /// A reference: the name between `$(` and `)`.
    Reference(&'a str),
}

/// Returns the parts of a text, in order. `$$` is a `$`; a `$` before anything else, and `$(`
/// without an end, stay as they are.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    // Behind the last `)` nothing is a reference: so each byte is read once, however many
    // references have no end.
    let (mut rest, mut end) = (text, text.rfind(')').unwrap_or_default());
    std::iter::from_fn(move || {
        let (part, length) = next(rest, end)?;
        rest = &rest[length..];
        end = end.saturating_sub(length);
        Some(part)
    })
}

/// Returns the first part and its length in bytes.
fn next(text: &str, end: usize) -> Option<(Part<'_>, usize)> {
    let before = text.find('$').unwrap_or(text.len());
    if before > 0 {
        return Some((Part::Text(&text[..before]), before));
    }
    let behind = text.strip_prefix('$')?;
    if behind.starts_with('$') {
        return Some((Part::Text("$"), 2));
    }
    let name = behind
        .strip_prefix('(')
        .filter(|_| end > 1)
        .and_then(|inside| inside.split_once(')'));
    Some(name.map_or((Part::Text("$"), 1), |(name, _)| {
        (Part::Reference(name), name.len() + 3)
    }))
}
