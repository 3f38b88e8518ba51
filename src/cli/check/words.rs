//! Sentences with numbers, lines of a width that can be read, and who says that a container is a
//! sidecar.

use swaplet_core::objects::pod::rule::SidecarRule;

/// How wide a line of words may be.
const WIDTH: usize = 100;

/// What the policy of a `--preset` is called: no policy of a cluster can be, and it comes last.
pub(super) const OF_PRESET: &str = "~preset/";

/// A number of things: `1 sidecar`, `2 sidecars`.
pub(super) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The text in lines that are indented, broken between words.
pub(super) fn indented(text: &str, indent: usize) -> String {
    let margin = " ".repeat(indent);
    let mut lines = String::new();
    let mut line = margin.clone();
    for word in text.split(' ') {
        let length = line.chars().count();
        if length > indent && length + 1 + word.chars().count() > WIDTH {
            lines.extend([line.as_str(), "\n"]);
            line.clone_from(&margin);
        } else if length > indent {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.extend([line.as_str(), "\n"]);
    lines
}

/// Who says that a container is a sidecar, and what else; a preset is no policy of anybody.
pub(super) fn said_by(rule: &SidecarRule) -> String {
    match preset(rule) {
        Some(preset) => format!("--preset {preset}"),
        None => rule.to_string(),
    }
}

/// The `--preset` that a rule is of.
pub(super) fn preset(rule: &SidecarRule) -> Option<&str> {
    rule.policy()?.name.strip_prefix(OF_PRESET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_whole_and_lines_short() {
        let text = indented(&"word ".repeat(60), 4);
        assert!(text.lines().count() == 4, "{text}");
        assert!(
            text.lines()
                .all(|line| line.len() <= WIDTH && line.starts_with("    word"))
        );
        let long = "x".repeat(300);
        assert_eq!(indented(&long, 2), format!("  {long}\n"));
        assert_eq!(
            (count(1, "pod"), count(0, "pod")),
            ("1 pod".into(), "0 pods".into())
        );
    }
}
