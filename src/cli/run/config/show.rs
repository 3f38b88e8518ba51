//! The configuration in effect, in the form of a file.

use std::fmt::{self, Write as _};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use super::{File, Key, is_said};

/// One flag with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Setting {
    pub(super) key: Key,
    /// The value; `None` if it is not set, and has no default.
    pub(super) value: Option<Value>,
    /// The source of the value.
    source: String,
}

/// A value in the form of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    One(String),
    List(Vec<String>),
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
        let raw = now.get_raw(id).map(|raw| {
            raw.map(|value| value.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        });
        let value = raw.and_then(|mut raw| match flag.get_action() {
            ArgAction::Append => Some(Value::List(raw)),
            _ => raw.pop().map(Value::One),
        });
        Some(Setting { key, value, source })
    };
    flags.filter_map(setting).collect()
}

impl Setting {
    /// Returns true if it is set explicitly, and not by a default.
    pub(in crate::cli) fn is_said(&self) -> bool {
        self.source != "default"
    }

    /// Formats it for a command line.
    pub(in crate::cli) fn in_one_line(&self) -> String {
        let key = &self.key;
        match &self.value {
            None => format!("--{key}"),
            Some(Value::One(value)) => format!("--{key}={value}"),
            Some(Value::List(values)) => format!("--{key}={}", values.join(",")),
        }
    }
}

/// Formats the settings as an equivalent file.
pub(in crate::cli) fn yaml(settings: &[Setting]) -> String {
    let mut text = String::new();
    for setting in settings {
        let _ = writeln!(text, "{setting}");
    }
    text
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, source } = self;
        match value {
            None => write!(out, "# {key}: not set"),
            Some(Value::One(value)) => write!(out, "{key}: {} # {source}", quoted(value)),
            Some(Value::List(values)) => {
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
