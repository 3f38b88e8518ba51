//! The configuration of `swaplet run`: flags, variables and one file, in this order.
//!
//! The keys of the file are the flags. Its values are inserted into the command line, for each flag
//! that is neither given there nor by its variable. So a file is checked by the same rules, and
//! there is one list of everything that can be configured.

mod show;

pub use self::show::{Setting, yaml};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::iter::successors;
use std::path::{Path, PathBuf};

use super::removed;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, Error};
use serde_json::Value;
use swaplet_edge::command_line::with_variable;

/// The subcommand that can be configured by a file.
const RUN: &str = "run";
/// The flags that cannot be in the file: its own path, and alternatives to running.
const OUTSIDE: [&str; 3] = ["config", "print_config", "help"];

#[derive(Debug)]
pub struct Called {
    command: Command,
    line: Vec<OsString>,
}

/// A parsed command line, with the file that it names.
#[derive(Debug)]
pub struct Read {
    pub matches: ArgMatches,
    /// For `swaplet run`: each flag with its value and source.
    pub settings: Vec<Setting>,
}

impl Called {
    pub const fn new(command: Command, line: Vec<OsString>) -> Self {
        Self { command, line }
    }

    /// Parses the command line, with the file that it names.
    ///
    /// # Errors
    /// The usage, a help text, or what is invalid.
    pub fn read(&self) -> Result<Read, Error> {
        if let Some(problem) = self.refused_variable() {
            return Err(self.error(ErrorKind::UnknownArgument, &problem));
        }
        let read = |path: PathBuf| match text_of(&path) {
            Ok(text) => Ok((path, text)),
            Err(error) => Err(self.error(ErrorKind::Io, &format!("{}: {error}", path.display()))),
        };
        self.read_with(self.path().map(read).transpose()?)
    }

    /// Parses the command line, which may be that of another process, with the path and the text of
    /// the file that it names.
    ///
    /// # Errors
    /// What is invalid.
    pub fn read_with(&self, file: Option<(PathBuf, String)>) -> Result<Read, Error> {
        let wrong = |problem: String| self.error(ErrorKind::Io, &problem);
        let file = file.map(|(path, text)| File::parse(path, &text).map_err(wrong));
        let file = file.transpose()?;
        let first = self.first_look();
        let given = first
            .as_ref()
            .and_then(|matches| matches.subcommand_matches(RUN));
        let is_given = |id: &str| given.is_some_and(|given| is_said(given.value_source(id)));
        let mut line: Vec<_> = self.line.iter().take(2).cloned().collect();
        for (file, key) in file
            .iter()
            .flat_map(|file| file.keys.keys().map(move |key| (file, key)))
        {
            let argument = self.argument(file, key)?;
            let written = file
                .arguments(key, argument)
                .map_err(|problem| self.error(ErrorKind::InvalidValue, &problem))?;
            if !is_given(argument.get_id().as_str()) {
                line.extend(written);
            }
        }
        line.extend(self.line.iter().skip(2).cloned());
        let matches = self
            .command
            .clone()
            .try_get_matches_from(line)
            .map_err(|error| self.with_place(self.unless_removed(error), file.as_ref()))
            .map_err(|error| with_variable(&self.command, &self.line, error))?;
        let now = matches.subcommand_matches(RUN);
        let settings = now
            .map(|now| show::settings(self.run(), now, given, file.as_ref()))
            .unwrap_or_default();
        Ok(Read { matches, settings })
    }

    /// Parses the line alone, ignoring errors.
    fn first_look(&self) -> Option<ArgMatches> {
        self.command
            .clone()
            .ignore_errors(true)
            .try_get_matches_from(self.line.clone())
            .ok()
    }

    fn path(&self) -> Option<PathBuf> {
        self.first_look()?
            .subcommand_matches(RUN)?
            .get_one::<PathBuf>("config")
            .cloned()
    }

    /// Returns the arguments that the subcommand defines.
    fn run(&self) -> impl Iterator<Item = &clap::Arg> {
        let run = self
            .command
            .get_subcommands()
            .find(|command| command.get_name() == RUN);
        run.into_iter()
            .flat_map(Command::get_arguments)
            .filter(|argument| !OUTSIDE.contains(&argument.get_id().as_str()))
    }

    fn argument(&self, file: &File, key: &Key) -> Result<&clap::Arg, Error> {
        self.run()
            .find(|argument| argument.get_long() == Some(&**key))
            .ok_or_else(|| {
                if let Some(problem) = removed::refusal(key) {
                    let problem = format!("{}: {problem}", file.name());
                    return self.error(ErrorKind::UnknownArgument, &problem);
                }
                let nearest = self
                    .nearest(key)
                    .map(|nearest| format!(": did you mean {nearest}?"));
                let nearest = nearest.unwrap_or_else(|| {
                    "; the keys are the flags of `swaplet run --help`".to_owned()
                });
                self.error(
                    ErrorKind::UnknownArgument,
                    &format!("{}: there is no key {key}{nearest}", file.name()),
                )
            })
    }

    /// Returns the suggestion that clap makes for an unknown flag.
    fn nearest(&self, key: &str) -> Option<String> {
        let line = [
            OsString::from("swaplet"),
            RUN.into(),
            format!("--{key}").into(),
        ];
        match self
            .command
            .clone()
            .try_get_matches_from(line)
            .err()?
            .get(ContextKind::SuggestedArg)?
        {
            ContextValue::String(flag) => {
                Some(flag.trim_start_matches('-').to_owned()).filter(|flag| *flag != "config")
            }
            _ => None,
        }
    }

    /// Returns why a variable is refused, where the line calls `swaplet run`.
    fn refused_variable(&self) -> Option<String> {
        let run = self.command.find_subcommand(RUN)?;
        self.first_look()?.subcommand_matches(RUN)?;
        removed::refused_variable(run, |name| std::env::var_os(name))
    }

    /// Replaces the error about an unknown flag that an earlier version had.
    fn unless_removed(&self, error: Error) -> Error {
        let flag = match (error.kind(), error.get(ContextKind::InvalidArg)) {
            (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => flag,
            _ => return error,
        };
        let Some(problem) = removed::refusal(flag.trim_start_matches('-')) else {
            return error;
        };
        let first = self.first_look();
        let called = first.as_ref().and_then(ArgMatches::subcommand);
        let called = successors(called, |(_, matches)| matches.subcommand());
        let called = called.map(|(name, _)| name);
        self.error_of(called, ErrorKind::UnknownArgument, &problem)
    }

    /// Attributes the error in a value of the file to the file, unless the line has it alone too.
    fn with_place(&self, error: Error, file: Option<&File>) -> Error {
        let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
            return error;
        };
        let flag = argument
            .split([' ', '=', '['])
            .next()
            .unwrap_or_default()
            .trim_start_matches('-');
        let Some(file) = file.filter(|file| file.keys.contains_key(flag)) else {
            return error;
        };
        let alone = self.command.clone().try_get_matches_from(&self.line).err();
        let parts = |error: &Error| {
            [ContextKind::InvalidArg, ContextKind::InvalidValue]
                .map(|part| error.get(part).map(ToString::to_string))
        };
        if alone.is_some_and(|alone| parts(&alone) == parts(&error)) {
            return error;
        }
        let said = error.render().to_string();
        let said = said
            .trim_start_matches("error: ")
            .split("\n\nFor more")
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned();
        self.error(error.kind(), &format!("{}: {flag}: {said}", file.name()))
    }

    /// Returns an error with the usage of the subcommand that takes a file.
    fn error(&self, kind: ErrorKind, problem: &str) -> Error {
        self.error_of([RUN], kind, problem)
    }

    /// Returns an error with the usage of the subcommand with this path.
    fn error_of<'a>(
        &self,
        path: impl IntoIterator<Item = &'a str>,
        kind: ErrorKind,
        problem: &str,
    ) -> Error {
        let mut command = self.command.clone();
        command.build();
        let mut path = path.into_iter();
        match path.try_fold(&mut command, |command, name| {
            command.find_subcommand_mut(name)
        }) {
            Some(called) => called.error(kind, problem),
            None => self.command.clone().error(kind, problem),
        }
    }
}

/// Returns true if the value is set explicitly, and not by a default.
pub const fn is_said(source: Option<ValueSource>) -> bool {
    matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    )
}

// The configuration file: keys, values, and the equivalent flags.

/// The maximum size of a file in bytes, that of a ConfigMap.
const LONGEST: u64 = 1 << 20;

/// The name of a flag, without the leading dashes.
type Key = String;

#[derive(Clone, Debug, PartialEq)]
struct File {
    path: PathBuf,
    keys: BTreeMap<Key, Value>,
}

/// Reads a file, at most one byte more than the maximum size.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(LONGEST + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}

impl File {
    /// Parses a text; fails if it is longer than 1 MiB, or not a YAML mapping.
    fn parse(path: PathBuf, text: &str) -> Result<Self, String> {
        if text.len() as u64 > LONGEST {
            return Err(format!(
                "{}: it is longer than {LONGEST} bytes: is it the file of the flags?",
                path.display()
            ));
        }
        let keys: Option<BTreeMap<Key, Value>> = serde_saphyr::from_str(text).map_err(|error| {
            // Without the library's advice to programmers.
            let advice = ", set DuplicateKeyPolicy in Options if acceptable";
            let (path, error) = (path.display(), error.to_string().replace(advice, ""));
            format!("{path}: it has to be a YAML mapping of flags to values: {error}")
        })?;
        Ok(Self {
            path,
            keys: keys.unwrap_or_default(),
        })
    }

    /// Returns its name in messages.
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns the command line arguments for this key.
    ///
    /// # Errors
    /// The value does not have the form that the flag takes; the message names the key and the fix.
    fn arguments(&self, key: &Key, flag: &Arg) -> Result<Vec<OsString>, String> {
        let value = self.keys.get(key).unwrap_or(&Value::Null);
        let said = |value: &str| OsString::from(format!("--{key}={value}"));
        let wrong = |fix: &str| format!("{}: {key}: {fix}", self.name());
        match (flag.get_action(), value) {
            (_, Value::Null) => Err(wrong("it has no value: give it one, or leave the key out")),
            (_, Value::Object(_)) => Err(wrong("it is a mapping, and the flag takes none")),
            (ArgAction::SetTrue, Value::Bool(true)) => Ok(vec![format!("--{key}").into()]),
            (ArgAction::SetTrue, Value::Bool(false)) => Ok(Vec::new()),
            (ArgAction::SetTrue, _) => Err(wrong("it is true or false")),
            (ArgAction::Append, Value::Array(entries)) => {
                let entries = entries
                    .iter()
                    .map(|entry| plain(entry).filter(|entry| !entry.contains(',')));
                let entries: Option<Vec<_>> = entries.map(|entry| Some(said(&entry?))).collect();
                entries.ok_or_else(|| {
                    wrong("each entry of the list is one plain value, without commas")
                })
            }
            (ArgAction::Append, value) => {
                let value = plain(value).unwrap_or_default();
                Err(wrong(&format!("it is a list: write `{key}: [{value}]`")))
            }
            (_, value) => Ok(vec![said(
                &plain(value).ok_or_else(|| wrong("it takes one value, not a list"))?,
            )]),
        }
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(answer) => Some(answer.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
