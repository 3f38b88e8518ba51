//! Lines of a readable width, misspelt names, and the origin of sidecars.

use std::collections::BTreeSet;

use swaplet_core::objects::pod::SidecarRule;

/// The maximum width of a line.
const WIDTH: usize = 100;

/// The maximum number of names that are listed.
const NAMES: usize = 20;

/// The name prefix of a `--preset`'s policy: no policy of a cluster can have it, and it sorts last.
pub const OF_PRESET: &str = "~preset/";

/// Returns what is wrong with a `--sidecar` that no container is called: most likely it is
/// misspelt.
pub fn no_container(name: &str, containers: &BTreeSet<Box<str>>) -> String {
    let names: Vec<&str> = containers.iter().map(|name| &**name).take(NAMES).collect();
    let more = if containers.len() > NAMES {
        ", ..."
    } else {
        ""
    };
    let there = match names.as_slice() {
        [] => "there is no container at all".to_owned(),
        names => format!("there are {}{more}", names.join(", ")),
    };
    format!("--sidecar {name}: no container has this name; {there}")
}

/// Breaks the text between words into lines that begin with the margin.
pub fn wrapped(text: &str, margin: &str) -> String {
    let begin = margin.chars().count();
    let mut lines = String::new();
    let mut line = margin.to_owned();
    for word in text.split(' ') {
        let length = line.chars().count();
        if length > begin && length + 1 + word.chars().count() > WIDTH {
            lines.extend([line.as_str(), "\n"]);
            margin.clone_into(&mut line);
        } else if length > begin {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.extend([line.as_str(), "\n"]);
    lines
}

/// Returns what makes a container a sidecar; a preset is not a policy of anybody.
pub(super) fn said_by(rule: &SidecarRule) -> String {
    match preset(rule) {
        Some(preset) => format!("--preset {preset}"),
        None => rule.to_string(),
    }
}

/// Returns the `--preset` of a rule.
pub(super) fn preset(rule: &SidecarRule) -> Option<&str> {
    rule.policy()?.name.strip_prefix(OF_PRESET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_whole_and_lines_short() {
        let text = wrapped(&"word ".repeat(60), "    ");
        assert!(text.lines().count() == 4, "{text}");
        assert!(
            text.lines()
                .all(|line| line.len() <= WIDTH && line.starts_with("    word"))
        );
        let long = "x".repeat(300);
        assert_eq!(wrapped(&long, "  "), format!("  {long}\n"));
    }
}
