//! The configuration in effect, in the form of a file.

use std::fmt::{self, Write as _};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use super::{File, Key, is_said};

/// One flag with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub key: Key,
    /// The values in the form of the command line; none if it is not set, and has no default.
    pub values: Vec<String>,
    /// True if it may have several values.
    is_list: bool,
    source: String,
    /// True if it is set explicitly, and not by a default.
    pub is_said: bool,
}

/// Returns all flags, in the order of the help. `given` has the flags set without the file.
pub(super) fn settings<'a>(
    flags: impl Iterator<Item = &'a Arg>,
    now: &ArgMatches,
    given: Option<&ArgMatches>,
    file: Option<&File>,
) -> Vec<Setting> {
    let setting = |flag: &Arg| {
        let (id, key) = (flag.get_id().as_str(), flag.get_long()?.to_owned());
        let source = match (now.value_source(id), file) {
            (Some(ValueSource::EnvVariable), _) => flag
                .get_env()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            (Some(ValueSource::CommandLine), Some(file))
                if !given.is_some_and(|given| is_said(given.value_source(id))) =>
            {
                file.name()
            }
            (Some(ValueSource::CommandLine), _) => format!("--{key}"),
            _ => "default".to_owned(),
        };
        let raw = now.get_raw(id).into_iter().flatten();
        Some(Setting {
            key,
            values: raw.map(|value| value.to_string_lossy().into()).collect(),
            is_list: matches!(flag.get_action(), ArgAction::Append),
            source,
            is_said: is_said(now.value_source(id)),
        })
    };
    flags.filter_map(setting).collect()
}

impl Setting {
    /// Returns a flag that is set to this value.
    #[cfg(test)]
    pub fn of(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            values: vec![value.to_owned()],
            is_list: false,
            source: format!("--{key}"),
            is_said: true,
        }
    }

    /// Formats it for a command line.
    pub fn in_one_line(&self) -> String {
        let (key, values) = (&self.key, self.values.join(","));
        match self.values.is_empty() {
            true => format!("--{key}"),
            false => format!("--{key}={values}"),
        }
    }
}

/// Formats the settings as an equivalent file.
pub fn yaml(settings: &[Setting]) -> String {
    let mut text = String::new();
    for setting in settings {
        let _ = writeln!(text, "{setting}");
    }
    text
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, source) = (&self.key, &self.source);
        match self.values.as_slice() {
            [] => write!(out, "# {key}: not set"),
            [value] if !self.is_list => write!(out, "{key}: {} # {source}", quoted(value)),
            values => {
                write!(out, "{key}: # {source}")?;
                values
                    .iter()
                    .try_for_each(|value| write!(out, "\n  - {}", quoted(value)))
            }
        }
    }
}

/// Formats numbers and booleans as they are, all else in quotes, as YAML and JSON both have it.
fn quoted(value: &str) -> String {
    let is_plain = matches!(value, "true" | "false")
        || value
            .parse::<u64>()
            .is_ok_and(|number| number.to_string() == value);
    if is_plain {
        value.to_owned()
    } else {
        serde_json::Value::from(value).to_string()
    }
}
