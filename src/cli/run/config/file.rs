//! The configuration file: keys, values, and the equivalent flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction};
use serde_json::Value;

/// The maximum size of a file in bytes, that of a ConfigMap.
const LONGEST: u64 = 1 << 20;

/// The name of a flag, without the leading dashes.
pub(super) type Key = String;

/// A parsed configuration file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct File {
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

/// Removes the library's advice to programmers from an error.
fn plain_yaml(problem: &str) -> String {
    problem.replace(", set DuplicateKeyPolicy in Options if acceptable", "")
}

impl File {
    /// Reads a file; fails if it is unreadable, longer than 1 MiB, or not a YAML mapping.
    pub(super) fn read(path: PathBuf) -> Result<Self, String> {
        let text = text_of(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(path, &text)
    }

    /// Parses a text; fails if it is longer than 1 MiB, or not a YAML mapping.
    pub(super) fn parse(path: PathBuf, text: &str) -> Result<Self, String> {
        if text.len() as u64 > LONGEST {
            return Err(format!(
                "{}: it is longer than {LONGEST} bytes: is it the file of the flags?",
                path.display()
            ));
        }
        let keys: Option<BTreeMap<Key, Value>> = serde_saphyr::from_str(text).map_err(|error| {
            format!(
                "{}: it has to be a YAML mapping of flags to values: {}",
                path.display(),
                plain_yaml(&error.to_string())
            )
        })?;
        Ok(Self {
            path,
            keys: keys.unwrap_or_default(),
        })
    }

    /// Returns its name in messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.keys()
    }

    /// Returns the command line arguments for this key.
    ///
    /// # Errors
    /// The value does not have the form that the flag takes; the message names the key and the fix.
    pub(super) fn arguments(&self, key: &Key, flag: &Arg) -> Result<Vec<OsString>, String> {
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
