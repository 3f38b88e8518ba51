//! The configuration of `swaplet run`: flags, variables and one file, in this order.
//!
//! The keys of the file are the flags. What it says is put into the command line as if it had been
//! written there, for each flag that is neither given there nor by its variable: so a file is
//! checked by the same rules, and there is one list of what can be configured.

mod file;
mod show;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Error};
use swaplet_edge::command_line::with_variable;

use self::file::{File, Key};
pub(in crate::cli) use self::show::{Setting, yaml};

/// The subcommand that can be configured by a file.
const RUN: &str = "run";
/// What cannot stand in the file: where it is, and what is done instead of running.
const OUTSIDE: [&str; 3] = ["config", "print_config", "help"];

/// How the program was called.
#[derive(Debug)]
pub(in crate::cli) struct Called {
    command: Command,
    line: Vec<OsString>,
}

/// What a command line says, with the file that it names.
#[derive(Debug)]
pub(in crate::cli) struct Read {
    pub(in crate::cli) matches: ArgMatches,
    /// Of `swaplet run`: each flag with its value and where that comes from.
    pub(in crate::cli) settings: Vec<Setting>,
}

impl Called {
    pub(in crate::cli) const fn new(command: Command, line: Vec<OsString>) -> Self {
        Self { command, line }
    }

    /// Reads the command line, with the file that it names.
    ///
    /// # Errors
    /// The usage, a help text, or what is wrong.
    pub(in crate::cli) fn read(&self) -> Result<Read, Error> {
        match self.path() {
            Some(path) => self.read_with(
                &File::read(path).map_err(|problem| self.error(ErrorKind::Io, &problem))?,
            ),
            None => self.finish(self.line.clone(), None),
        }
    }

    /// Reads the command line of another process, with the text of the file that it names. No
    /// variable of this process counts.
    ///
    /// # Errors
    /// What is wrong.
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
            .map_err(|error| self.with_place(error, file))
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

    /// What the line alone says, whatever is missing in it.
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

    /// The subcommand as it is defined.
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

    /// As clap finds it for a flag.
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

    /// What is wrong with a value of the file is said of the file.
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

    /// With the usage of the subcommand that takes a file.
    fn error(&self, kind: ErrorKind, problem: &str) -> Error {
        let mut command = self.command.clone();
        command.build();
        match command.find_subcommand_mut(RUN) {
            Some(run) => run.error(kind, problem),
            None => command.error(kind, problem),
        }
    }
}

/// Whether somebody has said it, other than by a default.
const fn is_said(source: Option<ValueSource>) -> bool {
    matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    )
}
