//! The end of a sidecar's log, in the form in which it is put into an Event.
//!
//! It is written by a tenant and read on a terminal. So it becomes one line of printable text
//! between quotes that it cannot end, after everything that swaplet itself reports.

use std::iter::Peekable;
use std::str::Chars;

use crate::objects::values::bounds::{MESSAGE, cut};

/// The most bytes of a log that fit into an Event without other text: the API server accepts no
/// longer message.
pub const MOST_BYTES: u16 = 1024;
/// The separator between two lines.
const LINE_END: &str = " | ";
/// The least bytes of a log that are worth the words before it.
const LEAST: usize = 16;
/// The most bytes of the reason why a log was not read.
const WHY: usize = 160;
const MARK: &str = "...";

/// The result of reading a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTail {
    /// The last lines, as [`clean`] returns them.
    Lines(String),
    /// The reason why it was not read.
    Unread(String),
}

/// Returns the note of an Event with the last `bytes` of each of these logs, as far as there is
/// room.
#[must_use]
pub fn with_logs(note: &str, logs: &[(Box<str>, LogTail)], bytes: usize) -> String {
    let mut note = cut(note, MESSAGE);
    for (nth, (container, log)) in logs.iter().enumerate() {
        let room = (MESSAGE - note.len()) / (logs.len() - nth);
        note.push_str(&words(container, log, bytes, room));
    }
    note
}

fn words(container: &str, log: &LogTail, bytes: usize, room: usize) -> String {
    let words = match log {
        LogTail::Lines(lines) if lines.is_empty() => format!("; {container} has logged nothing"),
        LogTail::Lines(lines) => {
            let begin = format!("; last of the log of {container}: ");
            let most = room.saturating_sub(begin.len() + 2).min(bytes);
            if most < LEAST.min(bytes) {
                return String::new();
            }
            format!("{begin}\"{}\"", last(lines, most))
        }
        LogTail::Unread(why) => {
            let why = cut(&clean(why.as_bytes()), WHY);
            format!("; the log of {container} was not read: {why}")
        }
    };
    if words.len() <= room {
        words
    } else {
        String::new()
    }
}

/// Returns at most this many bytes from the end, cut between characters.
#[must_use]
pub fn last(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let Some(kept) = bytes.checked_sub(MARK.len()) else {
        return MARK[..bytes].to_owned();
    };
    format!(
        "{MARK}{}",
        &text[text.ceil_char_boundary(text.len() - kept)..]
    )
}

/// Returns a log as one line of printable text without double quotes: lines are joined, and control
/// characters, sequences for terminals and invisible characters are left out.
#[must_use]
pub fn clean(written: &[u8]) -> String {
    let text = String::from_utf8_lossy(written);
    let text = printable(&text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(LINE_END)
}

/// Removes what does not print; the ends of lines are kept.
fn printable(text: &str) -> String {
    let mut rest = text.chars().peekable();
    let mut clean = String::with_capacity(text.len());
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' => skip_sequence(&mut rest),
            '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => clean.push('\n'),
            '\t' => clean.push(' '),
            '"' => clean.push('\''),
            next if next.is_control() || is_invisible(next) => {}
            next => clean.push(next),
        }
    }
    clean
}

/// Skips what follows ESC (ECMA-48): after `[` up to its final byte; where a string follows, to its
/// terminator, but on this line; and else one character.
fn skip_sequence(rest: &mut Peekable<Chars<'_>>) {
    match rest.next_if(|next| *next != '\n') {
        Some('[') => {
            while rest.next_if(|next| matches!(next, ' '..='?')).is_some() {}
            rest.next_if(|next| matches!(next, '@'..='~'));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            let is_string = |next: &char| !matches!(next, '\n' | '\u{7}' | '\u{1b}' | '\u{9c}');
            while rest.next_if(is_string).is_some() {}
        }
        _ => {}
    }
}

/// Returns true for characters that take no room, or turn the direction of the text: they could
/// make a line read differently.
#[must_use]
pub const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}
