//! The parts of a command line that kubectl's users expect, and clap does not provide by itself:
//! flags before the subcommand, a short `-h`, empty variables, and errors that name a variable.

use std::ffi::{OsStr, OsString};

use clap::builder::{NonEmptyStringValueParser, Resettable, StyledStr};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, Error};

/// The widest line of a help text, so that one fits into 100 columns with a margin.
pub const WIDTH: usize = 98;

/// Prepares a program and its subcommands. `-h` shows the first clause of each flag, `--help` all
/// and the examples. An empty variable counts as none, as from an optional `env` of a container;
/// an empty namespace or name of a sidecar is refused.
pub fn prepared(command: Command) -> Command {
    let command = with_examples_in_long_help(command.max_term_width(WIDTH));
    command
        .mut_args(|flag| short_help(without_empty_variable(with_a_name(flag))))
        .mut_subcommands(prepared)
}

fn with_examples_in_long_help(command: Command) -> Command {
    let Some(examples) = command.get_after_help().cloned() else {
        return command;
    };
    if command.get_after_long_help().is_some() {
        return command;
    }
    command
        .after_help(Resettable::<StyledStr>::Reset)
        .after_long_help(examples)
}

/// Refuses `-n "$NAMESPACE"` where the variable is not set: the API server could take an empty
/// namespace for all. No container has an empty name.
fn with_a_name(flag: Arg) -> Arg {
    if matches!(
        flag.get_long(),
        Some("namespace" | "state-namespace" | "sidecar")
    ) {
        flag.value_parser(NonEmptyStringValueParser::new())
    } else {
        flag
    }
}

fn without_empty_variable(flag: Arg) -> Arg {
    let is_empty = flag
        .get_env()
        .and_then(std::env::var_os)
        .is_some_and(|value| value.is_empty());
    if is_empty {
        flag.env(Resettable::Reset)
    } else {
        flag
    }
}

/// Returns the definition that `-h` prints: without the variables, which `--help` names, and with
/// the number of flags that only `--help` has.
pub fn in_summary(command: Command) -> Command {
    let more = command
        .get_arguments()
        .filter(|flag| flag.is_hide_short_help_set() && !flag.is_hide_set())
        .count();
    let command = if more > 0 {
        let flags = if more == 1 { "flag" } else { "flags" };
        command.after_help(format!(
            "--help shows {more} more {flags}, and explains each in full."
        ))
    } else {
        command
    };
    command
        .mut_args(|flag| flag.hide_env(true))
        .mut_subcommands(in_summary)
}

/// Returns the definition for this line: the summary if the line has `-h`.
pub fn for_line(command: Command, line: &[OsString]) -> Command {
    if line.iter().any(|word| word == "-h") {
        in_summary(command)
    } else {
        command
    }
}

/// Shortens the help of a flag to the first clause, and its default in brackets.
fn short_help(flag: Arg) -> Arg {
    let Some(help) = flag.get_help().map(ToString::to_string) else {
        return flag;
    };
    if flag.get_long_help().is_some() {
        return flag;
    }
    let Some(end) = end_of_clause(&help) else {
        // Of a flag that `-h` leaves out, manual pages have the long help alone.
        return if flag.is_hide_short_help_set() {
            flag.long_help(help)
        } else {
            flag
        };
    };
    let (first, rest) = help.split_at(end);
    let default = rest
        .rfind(" [default: ")
        .filter(|_| rest.ends_with(']'))
        .map_or("", |at| &rest[at..]);
    let short = format!("{first}{default}");
    flag.help(short).long_help(help)
}

/// Returns where the first clause ends that is neither in brackets nor quoted.
fn end_of_clause(help: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (0_u32, false);
    for (at, letter) in help.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '`' => quoted = !quoted,
            '.' | ';' | ':' if depth == 0 && !quoted && help[at + 1..].starts_with(' ') => {
                return Some(at);
            }
            _ => {}
        }
    }
    None
}

/// Writes the examples as a plugin of kubectl is called: `kubectl swaplet` for `swaplet`.
pub fn with_plugin_examples(command: Command) -> Command {
    let examples = command.get_after_long_help().map(ToString::to_string);
    let command = match examples {
        Some(text) => command.after_long_help(as_plugin(&text)),
        None => command,
    };
    command.mut_subcommands(with_plugin_examples)
}

fn as_plugin(text: &str) -> String {
    let line = |line: &str| {
        if !line.starts_with("  ") || line.trim_start().starts_with('#') {
            return line.to_owned();
        }
        let words = line.split(' ').map(|word| match word {
            "swaplet" => "kubectl swaplet",
            word => word,
        });
        words.collect::<Vec<_>>().join(" ")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Moves the flags before the subcommand behind it, where that takes them or refuses them:
/// `swaplet -n batch nodes`. The flags are those of `command` itself.
pub fn with_flags_behind(command: &Command, mut line: Vec<OsString>) -> Vec<OsString> {
    let Some(flags) = leading_flags(command, &line) else {
        return line;
    };
    let (mut end, mut current) = (flags, command);
    while let Some(next) = line.get(end).and_then(|word| current.find_subcommand(word)) {
        (end, current) = (end + 1, next);
    }
    line[1..end].rotate_left(flags - 1);
    line
}

/// Returns where the leading flags of the program end, with their values.
fn leading_flags(command: &Command, line: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        let word = line.get(at)?.to_str()?;
        match word.strip_prefix('-') {
            None => return Some(at),
            Some("" | "-") => return None,
            Some(flag) => at += words_of(command, flag)?,
        }
    }
}

/// Returns the number of words of a flag and its value; `None` if the program has no such flag.
fn words_of(command: &Command, flag: &str) -> Option<usize> {
    let takes_value = |flag: &Arg| flag.get_action().takes_values();
    if let Some(long) = flag.strip_prefix('-') {
        let name = long.split('=').next().unwrap_or(long);
        let known = command
            .get_arguments()
            .find(|known| known.get_long() == Some(name))?;
        let value_is_next = takes_value(known) && !long.contains('=');
        return Some(if value_is_next { 2 } else { 1 });
    }
    for (at, short) in flag.char_indices() {
        let known = command
            .get_arguments()
            .find(|known| known.get_short() == Some(short))?;
        if takes_value(known) {
            let is_last = at + short.len_utf8() == flag.len();
            return Some(if is_last { 2 } else { 1 });
        }
    }
    Some(1)
}

/// Adds to the subcommands those of these flags, by their long names, that they do not have:
/// accepted everywhere, as kubectl does, shown where they have an effect.
pub fn accepting(command: Command, flags: &[Arg]) -> Command {
    if command.has_subcommands() && command.get_arguments().next().is_none() {
        return command.mut_subcommands(|sub| accepting(sub, flags));
    }
    let missing: Vec<Arg> = flags
        .iter()
        .filter(|flag| {
            !command
                .get_arguments()
                .any(|own| own.get_long() == flag.get_long())
        })
        .map(|flag| flag.clone().hide(true).env(Resettable::Reset))
        .collect();
    command.args(missing)
}

/// Reports an error in the value of a variable with the name of the variable, because nobody has
/// passed the flag.
pub fn with_variable(command: &Command, line: &[OsString], mut error: Error) -> Error {
    let Some(ContextValue::String(said)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let long = said
        .split([' ', '=', '['])
        .next()
        .unwrap_or_default()
        .trim_start_matches('-')
        .to_owned();
    let mut current = command;
    for word in line.iter().skip(1) {
        current = current.find_subcommand(word).unwrap_or(current);
    }
    let flag = current
        .get_arguments()
        .find(|flag| flag.get_long() == Some(&*long));
    let variable = flag
        .filter(|flag| !is_passed(flag, &long, line))
        .and_then(|flag| flag.get_env())
        .filter(|variable| std::env::var_os(variable).is_some());
    if let Some(variable) = variable.map(OsStr::to_string_lossy) {
        error.insert(
            ContextKind::InvalidArg,
            ContextValue::String(format!("{variable}, the variable of --{long}")),
        );
    }
    error
}

fn is_passed(flag: &Arg, long: &str, line: &[OsString]) -> bool {
    let short = flag.get_short().map(|short| format!("-{short}"));
    line.iter().map(|word| word.to_string_lossy()).any(|word| {
        word.strip_prefix("--")
            .is_some_and(|name| name.split('=').next() == Some(long))
            || short
                .as_ref()
                .is_some_and(|short| word.starts_with(&**short))
    })
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    fn program() -> Command {
        let namespace = Arg::new("namespace").short('n').long("namespace");
        let all = Arg::new("all")
            .short('A')
            .long("all-namespaces")
            .action(ArgAction::SetTrue);
        let warm = Command::new("warm").subcommand(Command::new("status"));
        Command::new("p")
            .args([namespace, all])
            .subcommands([Command::new("nodes"), warm])
    }

    fn ordered(line: &str) -> String {
        let line = line.split(' ').map(OsString::from).collect();
        let ordered = with_flags_behind(&program(), line);
        let words: Vec<_> = ordered
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    #[test]
    fn flags_before_the_subcommand_are_its_flags() {
        for (line, expected) in [
            ("p -n x nodes a", "p nodes -n x a"),
            ("p -nx -A nodes", "p nodes -nx -A"),
            ("p -An x warm status i", "p warm status -An x i"),
            ("p --namespace=x warm i", "p warm --namespace=x i"),
            ("p --namespace warm warm i", "p warm --namespace warm i"),
        ] {
            assert_eq!(ordered(line), expected);
        }
        // What is wrong stays where it is, for clap to say.
        for line in [
            "p",
            "p -n",
            "p -n x",
            "p -x nodes",
            "p --help nodes",
            "p -n x nods",
            "p - nodes",
            "p nodes -n x",
            "p -- nodes",
        ] {
            assert_eq!(ordered(line), line);
        }
    }

    #[test]
    fn the_short_help_is_a_clause_with_the_default() {
        let flag = short_help(Arg::new("a").help("Which. More of it [default: all]"));
        assert_eq!(flag.get_help().unwrap().to_string(), "Which [default: all]");
        assert_eq!(
            flag.get_long_help().unwrap().to_string(),
            "Which. More of it [default: all]"
        );
        assert!(
            short_help(Arg::new("a").help("Which"))
                .get_long_help()
                .is_none()
        );
        for (help, short) in [
            ("One (a; b) of it; more", "One (a; b) of it"),
            ("Name it: `a; b`. More", "Name it"),
            ("All `a; b`. More", "All `a; b`"),
        ] {
            let flag = short_help(Arg::new("a").help(help));
            assert_eq!(flag.get_help().unwrap().to_string(), short);
        }
        let hidden = short_help(Arg::new("a").help("Which").hide_short_help(true));
        assert_eq!(hidden.get_long_help().unwrap().to_string(), "Which");
    }

    #[test]
    fn examples_of_a_plugin_are_those_of_kubectl() {
        let text =
            "Examples:\n  # As swaplet does\n  helm x | swaplet check -f -\n\nIn swaplet run.";
        assert_eq!(
            as_plugin(text),
            "Examples:\n  # As swaplet does\n  helm x | kubectl swaplet check -f -\n\nIn swaplet run."
        );
    }
}
