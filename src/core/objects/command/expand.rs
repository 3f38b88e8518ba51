//! The expansion of `$(NAME)` in a command and in the environment, as in the kubelet
//! (`third_party/forked/golang/expansion` of Kubernetes, and `makeEnvironmentVariables` of the
//! kubelet).
//!
//! A value that refers twice to the one before it is twice as long, and the next one four times:
//! thirty such lines are a gigabyte. So only the requested values are expanded, and no further than
//! Linux would take.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::objects::pod::container_spec::{ContainerSpec, EnvValue, EnvVar};

/// The bytes of the longest text: Linux takes no longer argument or variable (`MAX_ARG_STRLEN`).
pub const MOST_TEXT: usize = 128 << 10;
/// The bytes that are expanded for one container, with all values that the requested ones need.
pub const MOST_WORK: usize = 1 << 20;

/// The value of a variable, as far as the spec alone shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable<T> {
    /// Set to this value.
    Known(T),
    /// Set, or maybe set, to a value that the spec does not show or that is too long.
    Unknown,
    /// Not set: a reference to it stays as it is written.
    Unset,
}

/// The environment of a container, as far as its spec shows it.
///
/// A value can refer to the variables before it; of two entries with one name the later one counts
/// for the entries after it.
pub struct Environment<'a> {
    entries: &'a [EnvVar],
    /// Each name with the positions of its entries, sorted.
    positions: Vec<(&'a str, usize)>,
    /// True if more variables may come from `envFrom`.
    open: bool,
    /// The bytes that may still be expanded.
    left: Cell<usize>,
}

/// The values of entries, by their positions; `None` if a value is unknown.
type Values = BTreeMap<usize, Option<String>>;

impl<'a> Environment<'a> {
    /// Returns the environment that `env` sets, in the order of the spec.
    pub fn of(container: &'a ContainerSpec) -> Self {
        let mut positions: Vec<_> = container
            .env
            .iter()
            .enumerate()
            .map(|(position, entry)| (&*entry.name, position))
            .collect();
        positions.sort_unstable();
        Self {
            entries: &container.env,
            positions,
            open: container.has_env_from,
            left: Cell::new(MOST_WORK),
        }
    }

    /// Returns the text with its references replaced; `None` if one is unknown, or the text gets
    /// too long.
    pub fn expand(&self, text: &str) -> Option<String> {
        self.expand_at(text, self.entries.len())
    }

    /// Returns the PATH that the container sets itself. `envFrom` is assumed to set none: it would
    /// replace the image's in every container that uses it.
    pub fn search_path(&self) -> Variable<String> {
        match self.last("PATH", self.entries.len()) {
            Some(position) => self
                .literal(position)
                .and_then(|text| self.expand_at(text, position))
                .map_or(Variable::Unknown, Variable::Known),
            None => Variable::Unset,
        }
    }

    /// Expands a text as if it were the entry at this position.
    fn expand_at(&self, text: &str, position: usize) -> Option<String> {
        let mut values = Values::new();
        for needed in self.needed(text, position) {
            let value = self
                .literal(needed)
                .and_then(|text| self.replace(text, needed, &values));
            values.insert(needed, value);
        }
        self.replace(text, position, &values)
    }

    /// Returns the entries that a text refers to, directly or not: each refers only to earlier
    /// entries.
    fn needed(&self, text: &str, position: usize) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut open = vec![(text, position)];
        while let Some((text, position)) = open.pop() {
            for part in parts(text) {
                let Part::Reference(name) = part else {
                    continue;
                };
                let Some(found) = self
                    .last(name, position)
                    .filter(|found| needed.insert(*found))
                else {
                    continue;
                };
                open.extend(self.literal(found).map(|text| (text, found)));
            }
        }
        needed
    }

    fn replace(&self, text: &str, position: usize, values: &Values) -> Option<String> {
        let mut made = String::new();
        for part in parts(text) {
            match part {
                Part::Text(text) => self.push(&mut made, text)?,
                Part::Reference(name) => match self.lookup(name, position, values) {
                    Variable::Known(value) => self.push(&mut made, value)?,
                    Variable::Unset => ["$(", name, ")"]
                        .into_iter()
                        .try_for_each(|text| self.push(&mut made, text))?,
                    Variable::Unknown => return None,
                },
            }
        }
        Some(made)
    }

    fn push(&self, made: &mut String, text: &str) -> Option<()> {
        let left = self.left.get().checked_sub(text.len())?;
        if made.len().saturating_add(text.len()) > MOST_TEXT {
            return None;
        }
        self.left.set(left);
        made.push_str(text);
        Some(())
    }

    /// Looks up a variable; one that is not in `env` may come from `envFrom` or a Service.
    fn lookup<'v>(&self, name: &str, position: usize, values: &'v Values) -> Variable<&'v str> {
        match self.last(name, position) {
            Some(found) => values
                .get(&found)
                .and_then(Option::as_deref)
                .map_or(Variable::Unknown, Variable::Known),
            None if self.open || is_of_a_service(name) => Variable::Unknown,
            None => Variable::Unset,
        }
    }

    /// Returns the last entry with this name before this position.
    fn last(&self, name: &str, position: usize) -> Option<usize> {
        let end = self
            .positions
            .partition_point(|entry| *entry < (name, position));
        self.positions[..end]
            .last()
            .filter(|(found, _)| *found == name)
            .map(|(_, position)| *position)
    }

    fn literal(&self, position: usize) -> Option<&'a str> {
        match &self.entries.get(position)?.value {
            EnvValue::Literal(text) => Some(text),
            EnvValue::Reference { .. } => None,
        }
    }
}

/// Returns true for the variables that the kubelet sets for each Service (`pkg/kubelet/envvars`).
fn is_of_a_service(name: &str) -> bool {
    ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"]
        .iter()
        .any(|end| name.ends_with(end))
        || ["_SERVICE_PORT_", "_TCP", "_UDP", "_SCTP"]
            .iter()
            .any(|part| name.contains(part))
}

// The parser of `$(NAME)` references in a text.

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Text that stays as it is.
    Text(&'a str),
    /// A reference: the name between `$(` and `)`.
    Reference(&'a str),
}

/// Returns the parts of a text, in order. `$$` is a `$`; a `$` before anything else, and `$(`
/// without an end, stay as they are.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    // Behind the last `)` nothing is a reference: so each byte is read once, however many
    // references have no end.
    let (mut rest, mut end) = (text, text.rfind(')').unwrap_or_default());
    std::iter::from_fn(move || {
        let (part, length) = next(rest, end)?;
        rest = &rest[length..];
        end = end.saturating_sub(length);
        Some(part)
    })
}

/// Returns the first part and its length in bytes.
fn next(text: &str, end: usize) -> Option<(Part<'_>, usize)> {
    let before = text.find('$').unwrap_or(text.len());
    if before > 0 {
        return Some((Part::Text(&text[..before]), before));
    }
    let behind = text.strip_prefix('$')?;
    if behind.starts_with('$') {
        return Some((Part::Text("$"), 2));
    }
    let name = behind
        .strip_prefix('(')
        .filter(|_| end > 1)
        .and_then(|inside| inside.split_once(')'));
    Some(name.map_or((Part::Text("$"), 1), |(name, _)| {
        (Part::Reference(name), name.len() + 3)
    }))
}

#[cfg(test)]
mod tests;
