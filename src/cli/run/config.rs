//! The configuration of `swaplet run`: flags, variables and one file, in this order.
//!
//! The keys of the file are the flags. Its values are inserted into the command line, for each flag
//! that is neither given there nor by its variable. So a file is checked by the same rules, and
//! there is one list of everything that can be configured.

mod file;
mod show;

use std::ffi::OsString;
use std::iter::successors;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Error};
use swaplet_edge::command_line::with_variable;

use self::file::{File, Key};
pub(in crate::cli) use self::show::{Setting, yaml};
use super::removed;

/// The subcommand that can be configured by a file.
const RUN: &str = "run";
/// The flags that cannot be in the file: its own path, and alternatives to running.
const OUTSIDE: [&str; 3] = ["config", "print_config", "help"];

/// The call of the program.
#[derive(Debug)]
pub(in crate::cli) struct Called {
    command: Command,
    line: Vec<OsString>,
}

/// A parsed command line, with the file that it names.
#[derive(Debug)]
pub(in crate::cli) struct Read {
    pub(in crate::cli) matches: ArgMatches,
    /// For `swaplet run`: each flag with its value and source.
    pub(in crate::cli) settings: Vec<Setting>,
}

impl Called {
    pub(in crate::cli) const fn new(command: Command, line: Vec<OsString>) -> Self {
        Self { command, line }
    }

    /// Parses the command line, with the file that it names.
    ///
    /// # Errors
    /// The usage, a help text, or what is invalid.
    pub(in crate::cli) fn read(&self) -> Result<Read, Error> {
        if let Some(problem) = self.refused_variable() {
            return Err(self.error(ErrorKind::UnknownArgument, &problem));
        }
        match self.path() {
            Some(path) => self.read_with(
                &File::read(path).map_err(|problem| self.error(ErrorKind::Io, &problem))?,
            ),
            None => self.finish(self.line.clone(), None),
        }
    }

    /// Parses the command line of another process, with the text of the file that it names.
    /// Variables of this process are ignored.
    ///
    /// # Errors
    /// What is invalid.
    pub(in crate::cli) fn read_elsewhere(
        &self,
        file: Option<(PathBuf, String)>,
    ) -> Result<Read, Error> {
        let wrong = |problem: String| self.error(ErrorKind::Io, &problem);
        match file {
            Some((path, text)) => self.read_with(&File::parse(path, &text).map_err(wrong)?),
            None => self.finish(self.line.clone(), None),
        }
    }

    fn read_with(&self, file: &File) -> Result<Read, Error> {
        let mut line: Vec<_> = self.line.iter().take(2).cloned().collect();
        let first = self.first_look();
        let given = first
            .as_ref()
            .and_then(|matches| matches.subcommand_matches(RUN));
        for key in file.keys() {
            let is_given = |id: &str| given.is_some_and(|given| is_said(given.value_source(id)));
            let argument = self.argument(file, key)?;
            let written = file
                .arguments(key, argument)
                .map_err(|problem| self.error(ErrorKind::InvalidValue, &problem))?;
            if !is_given(argument.get_id().as_str()) {
                line.extend(written);
            }
        }
        line.extend(self.line.iter().skip(2).cloned());
        self.finish(line, Some(file))
    }

    fn finish(&self, line: Vec<OsString>, file: Option<&File>) -> Result<Read, Error> {
        let matches = self
            .command
            .clone()
            .try_get_matches_from(line)
            .map_err(|error| self.with_place(self.unless_removed(error), file))
            .map_err(|error| with_variable(&self.command, &self.line, error))?;
        let first = self.first_look();
        let (now, given) = (
            matches.subcommand_matches(RUN),
            first
                .as_ref()
                .and_then(|first| first.subcommand_matches(RUN)),
        );
        let settings = now
            .map(|now| show::settings(self.run(), now, given, file))
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

    /// Attributes the error in a value of the file to the file.
    fn with_place(&self, error: Error, file: Option<&File>) -> Error {
        let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
            return error;
        };
        let flag = argument
            .split([' ', '=', '['])
            .next()
            .unwrap_or_default()
            .trim_start_matches('-');
        let Some(file) = file.filter(|file| file.keys().any(|key| &**key == flag)) else {
            return error;
        };
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
const fn is_said(source: Option<ValueSource>) -> bool {
    matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    )
}
