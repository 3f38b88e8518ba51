//! Finds where two answers differ.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use serde_json::Value;

/// One place where the real thing and the fake say different things.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Which step of the sequence, from 0.
    pub step: usize,
    /// What kind of step it was, as [`super::known`] matches it.
    pub operation: String,
    /// Where in the answer; indices of lists are left out: `body.spec.containers[].image`.
    pub path: String,
    /// What the real thing says there; null for nothing.
    pub real: Value,
    /// What the fake says there; null for nothing.
    pub fake: Value,
}

impl Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            step,
            operation,
            path,
            real,
            fake,
        } = self;
        write!(
            out,
            "step {step} ({operation}), {path}:\n      real: {}\n      fake: {}",
            short(real),
            short(fake)
        )
    }
}

/// Enough of a value to recognise it.
fn short(value: &Value) -> String {
    const ENOUGH: usize = 900;
    let text = value.to_string();
    match text.char_indices().nth(ENOUGH) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

/// All differences of two values, as paths and what stands there.
pub fn differences(path: &str, real: &Value, fake: &Value) -> Vec<(String, Value, Value)> {
    match (real, fake) {
        _ if real == fake => Vec::new(),
        (Value::Object(reals), Value::Object(fakes)) => {
            let fields: BTreeSet<&String> = reals.keys().chain(fakes.keys()).collect();
            let one = |field: &&String| {
                both(
                    &format!("{path}.{field}"),
                    reals.get(*field),
                    fakes.get(*field),
                )
            };
            fields.iter().flat_map(one).collect()
        }
        (Value::Array(reals), Value::Array(fakes)) if reals.len() == fakes.len() => {
            let pairs = reals.iter().zip(fakes);
            pairs
                .flat_map(|(real, fake)| differences(&format!("{path}[]"), real, fake))
                .collect()
        }
        _ => vec![(path.to_owned(), real.clone(), fake.clone())],
    }
}

/// A field that is not there differs from one that is null: only the text tells them apart.
fn both(path: &str, real: Option<&Value>, fake: Option<&Value>) -> Vec<(String, Value, Value)> {
    let shown = |value: Option<&Value>| value.cloned().unwrap_or_else(|| Value::from("<missing>"));
    match (real, fake) {
        (Some(real), Some(fake)) => differences(path, real, fake),
        _ => vec![(path.to_owned(), shown(real), shown(fake))],
    }
}
