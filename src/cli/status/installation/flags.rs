//! The flags of `swaplet run` in an installation, parsed by the same rules as there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Args as _, Command};
use swaplet_core::cluster::exit_images::ExitImages;

use crate::cli::run::RunArgs;
use crate::cli::run::config::{Called, Setting};
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;

/// The flags with which an installation runs.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Flags {
    /// The values of the flags that are set explicitly, by their long names.
    said: BTreeMap<String, Vec<String>>,
    /// The values of all flags that have one.
    all: BTreeMap<String, Vec<String>>,
    /// All flags, as `--print-config` prints them.
    pub(in crate::cli) settings: Vec<Setting>,
    /// The text of the file of `--node-classes`.
    pub(in crate::cli) node_classes: Option<String>,
}

impl Flags {
    /// Parses the arguments of a container (`run` first), its variables and its file of `--config`.
    ///
    /// # Errors
    /// What is invalid, or unknown to this version, in one line.
    pub(super) fn read(
        args: &[String],
        variables: &BTreeMap<String, String>,
        config: Option<(PathBuf, String)>,
    ) -> Result<Self, String> {
        let Some(("run", args)) = args.split_first().map(|(first, rest)| (&**first, rest)) else {
            return Err("it does not run `swaplet run`".to_owned());
        };
        let given = |flag: &str| {
            let with_value = format!("--{flag}=");
            let alone = format!("--{flag}");
            args.iter()
                .any(|arg| *arg == alone || arg.starts_with(&with_value))
        };
        let run = RunArgs::augment_args(Command::new("run"));
        let by_variable = run
            .get_arguments()
            .filter(|flag| !flag.get_long().is_some_and(given))
            .filter_map(|flag| as_argument(flag, variables));
        let mut line: Vec<OsString> = vec!["swaplet".into(), "run".into()];
        line.extend(by_variable);
        line.extend(args.iter().map(OsString::from));
        let run = run.mut_args(|flag| flag.env(Resettable::Reset));
        let command = Command::new("swaplet").subcommand(run.clone());
        let read = Called::new(command, line)
            .read_elsewhere(config)
            .map_err(|error| in_one_line(&error))?;
        let mut flags = Self {
            settings: read.settings,
            ..Self::default()
        };
        let matches = read.matches.subcommand_matches("run");
        for flag in run.get_arguments() {
            let (Some(matches), Some(long)) = (matches, flag.get_long()) else {
                continue;
            };
            let id = flag.get_id().as_str();
            let Ok(Some(raw)) = matches.try_get_raw(id) else {
                continue;
            };
            let raw: Vec<_> = raw.map(|raw| raw.to_string_lossy().into_owned()).collect();
            if matches.value_source(id) == Some(ValueSource::CommandLine) {
                flags.said.insert(long.to_owned(), raw.clone());
            }
            flags.all.insert(long.to_owned(), raw);
        }
        Ok(flags)
    }

    /// Returns the explicit values of a flag, by its long name; empty if it is not set.
    pub(in crate::cli) fn said(&self, flag: &str) -> &[String] {
        self.said.get(flag).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the value of a flag that has one at most; its default if it is not set.
    pub(in crate::cli) fn one(&self, flag: &str) -> Option<&str> {
        self.all.get(flag)?.last().map(String::as_str)
    }

    /// Returns true if a boolean flag is on.
    pub(in crate::cli) fn is_on(&self, flag: &str) -> bool {
        self.one(flag) == Some("true")
    }

    /// Returns true if it ends sidecars that policies name.
    pub(in crate::cli) fn reads_policies(&self) -> bool {
        self.is_on("sidecar-policies") && self.is_on("terminate")
    }

    /// Returns its exit images.
    pub(in crate::cli) fn exit_images(&self) -> ExitImages {
        let default = self.said("exit-image").first();
        let default = default.and_then(|image| ImageReference::parse(image).ok());
        let listed = self.said("exit-images").iter();
        let listed = listed.filter_map(|image| ImagePattern::parse(image).ok());
        ExitImages::new(default, listed.collect())
    }

    /// Returns the namespaces in which it works; empty for all.
    pub(in crate::cli) fn namespaces(&self) -> &[String] {
        self.said("namespace")
    }
}

#[cfg(test)]
impl Flags {
    /// Returns flags with these explicit values.
    pub(in crate::cli) fn of(said: &[(&str, &str)]) -> Self {
        let said: BTreeMap<_, _> = said
            .iter()
            .map(|(flag, value)| ((*flag).to_owned(), vec![(*value).to_owned()]))
            .collect();
        Self {
            all: said.clone(),
            said,
            ..Self::default()
        }
    }
}

/// Returns the value of a variable as a command line argument.
fn as_argument(flag: &Arg, variables: &BTreeMap<String, String>) -> Option<OsString> {
    let (long, env) = (flag.get_long()?, flag.get_env()?.to_str()?);
    let value = variables.get(env)?;
    match flag.get_action() {
        // The same rules by which clap reads such a variable.
        ArgAction::SetTrue => (value == "true").then(|| format!("--{long}").into()),
        _ if value.is_empty() => None,
        _ => Some(format!("--{long}={value}").into()),
    }
}

/// Returns clap's message without the usage.
fn in_one_line(error: &clap::Error) -> String {
    let words = error.render().to_string();
    let line = words.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("they cannot be read")
        .trim_start_matches("error: ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str], variables: &[(&str, &str)], config: &str) -> Result<Flags, String> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let config = (!config.is_empty()).then(|| ("config.yaml".into(), config.to_owned()));
        Flags::read(&args, &variables, config)
    }

    #[test]
    fn flags_outrank_variables_and_these_the_file() {
        let flags = read(
            &["run", "--finish=never", "--leader-elect"],
            &[
                ("SWAPLET_STATE_NAMESPACE", "system"),
                ("SWAPLET_FINISH", "allowed"),
                ("SWAPLET_EXIT_IMAGE", "registry.example/exit:v2"),
                ("RUST_LOG", "info"),
            ],
            "exit-image: registry.example/exit:v1\nnamespace: [a, b]\n",
        )
        .unwrap();
        assert_eq!(flags.one("finish"), Some("never"));
        assert_eq!(flags.said("exit-image"), ["registry.example/exit:v2"]);
        assert_eq!(flags.namespaces(), ["a", "b"]);
        assert_eq!(flags.one("state-namespace"), Some("system"));
        assert!(flags.is_on("leader-elect") && flags.is_on("terminate") && !flags.is_on("warm"));
        assert!(flags.said("terminate").is_empty(), "a default");
    }

    #[test]
    fn what_is_unknown_here_is_named() {
        let words = read(&["run", "--of-tomorrow"], &[], "").unwrap_err();
        assert!(words.contains("--of-tomorrow"), "{words}");
        let words = read(&["run"], &[], "of-tomorrow: 1\n").unwrap_err();
        assert!(words.contains("there is no key of-tomorrow"), "{words}");
        assert!(read(&["warm", "x"], &[], "").is_err());
    }
}
