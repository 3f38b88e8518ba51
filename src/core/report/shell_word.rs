//! Words of commands that somebody will paste into a shell.

/// The characters besides ASCII letters and digits that mean nothing to a shell.
const PLAIN: &str = "._/:@=+-%,";

/// Returns a word that a shell passes on unchanged, whatever a tenant has written into it.
///
/// A control character stays in it, quoted: who prints it on a terminal has to replace it.
pub fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || PLAIN.contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_paste_runs_nothing_that_a_word_says() {
        for plain in ["log=r.example:5000/log:1@sha256:0", "/opt/a_b+c-d%e,f"] {
            assert_eq!(shell_word(plain), plain);
        }
        for (word, quoted) in [
            ("", "''"),
            ("log=a:1;reboot", "'log=a:1;reboot'"),
            ("log=a'$(x)", r"'log=a'\''$(x)'"),
            ("a b", "'a b'"),
            ("~", "'~'"),
            ("a\nb", "'a\nb'"),
            ("\u{e9}", "'\u{e9}'"),
        ] {
            assert_eq!(shell_word(word), quoted, "{word:?}");
        }
    }
}
