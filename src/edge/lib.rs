//! The parts that the programs of swaplet share at their edge: command lines ([`command_line`]),
//! exit codes ([`exit`]), the cluster ([`client`]), addresses ([`address`]), times ([`duration`]),
//! manifests ([`manifests`]), signals ([`signals`]), tables ([`table`]) and standard output.

pub mod address;
pub mod client;
pub mod command_line;
pub mod duration;
pub mod exit;
pub mod manifests;
pub mod signals;
pub mod table;

use std::io::{self, Write};

/// Prints results. A reader that has been closed (`| head`) is not an error.
///
/// # Errors
/// Fails if standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints a line on standard error, from the arguments of [`format!`]. A reader that has been closed
/// (`2>&1 | head`) is no reason to stop in the middle of the work.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr().lock(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

/// Returns an error with its causes, on one line. Each cause appears once, though libraries repeat
/// their causes in their own words.
pub fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line.replace(draws, "?")
}

/// Returns true for characters that control a terminal, or make a line read differently: an error
/// may quote objects. Several errors may be on separate lines.
fn draws(sign: char) -> bool {
    !matches!(sign, '\n' | '\t') && (sign.is_control() || is_invisible(sign))
}

/// Returns true for characters that take no room, turn the direction of the text or end a line of
/// YAML: they could make a line read differently.
pub const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    /// As kubectl reads a comment.
    #[test]
    fn what_ends_a_line_of_yaml_is_not_drawn() {
        assert!(
            ['\u{85}', '\u{2028}', '\u{2029}']
                .iter()
                .all(|sign| draws(*sign))
        );
    }

    #[test]
    fn an_error_that_quotes_an_object_does_not_control_the_terminal() {
        let image = "a\u{1b}[2J\r\u{202e}b";
        let error = anyhow!("image {image}\nerror: c").context("pod p");
        assert_eq!(in_one_line(&error), "pod p: image a?[2J??b\nerror: c");
    }
}
