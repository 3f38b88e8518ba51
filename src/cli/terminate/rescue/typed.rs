//! The flags of a call, for the call that is advised after it.

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use swaplet_core::report::shell_word::shell_word;

use super::RescueArgs;

/// What the next call does not take over: it is to write, and its namespace is named anyway.
const LEFT: [&str; 3] = ["dry_run", "namespace", "all_namespaces"];

/// The flags that were typed, as words for a shell. What variables say is said again by them, and no
/// flag has a secret.
#[derive(Debug)]
pub(super) struct Typed(pub(super) Vec<String>);

impl Args for Typed {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Typed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words = Vec::new();
        for flag in RescueArgs::augment_args(Command::new("rescue")).get_arguments() {
            let id = flag.get_id().as_str();
            let by_hand = matches.value_source(id) == Some(ValueSource::CommandLine);
            let (Some(long), true) = (flag.get_long(), by_hand && !LEFT.contains(&id)) else {
                continue;
            };
            let word = |value: &std::ffi::OsStr| match flag.get_action() {
                ArgAction::SetTrue => format!("--{long}"),
                _ => shell_word(&format!("--{long}={}", value.to_string_lossy())),
            };
            words.extend(matches.get_raw(id).into_iter().flatten().map(word));
        }
        Ok(Self(words))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
