//! A text with references, taken apart.

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// It stays as it is.
    Text(&'a str),
    /// The name between `$(` and `)`.
    Reference(&'a str),
}

/// The parts of a text, in their order. `$$` is a `$`; one before anything else, and `$(` without
/// an end, stay as they are.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    // Behind the last `)` nothing is a reference: so each byte is looked at once, however many have
    // no end.
    let (mut rest, mut end) = (text, text.rfind(')').unwrap_or_default());
    std::iter::from_fn(move || {
        let (part, length) = next(rest, end)?;
        rest = &rest[length..];
        end = end.saturating_sub(length);
        Some(part)
    })
}

/// The first part, and how many bytes it takes.
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
