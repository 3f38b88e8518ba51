//! Names without a meaning that are similar to one with a meaning.

use strsim::osa_distance;

use crate::objects::values::env::{IGNORE_EXIT_CODE, WHEN_JOB_EXIT, WITH_IMAGE};

/// The longest name that is compared, in bytes: the longest name that marks has 49.
const LONGEST: usize = 80;
/// The most wrong letters in the name of a variable; the nearest two variables that mark are 11
/// apart.
const WRONG_IN_VARIABLE: usize = 4;
/// The most wrong letters in the name of a field.
const WRONG_IN_FIELD: usize = 2;
/// The prefix of all variables that mark, and of no other variable of OpenKruise's.
const PREFIX: &str = "KRUISE_TERMINATE_SIDECAR";

/// The fields of a container (Kubernetes 1.37, `core/v1` Container).
const FIELDS: [&str; 25] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

/// Returns the variable that a misspelt name was meant to be; `None` if the name is right, or
/// similar to none.
pub fn meant_variable(name: &str) -> Option<&'static str> {
    let known = [WHEN_JOB_EXIT, WITH_IMAGE, IGNORE_EXIT_CODE];
    if name.len() > LONGEST || known.contains(&name) {
        return None;
    }
    let upper = name
        .trim()
        .to_ascii_uppercase()
        .replace(['-', '.', ' '], "_");
    let (wrong, nearest) = nearest(&known, &upper);
    (wrong <= WRONG_IN_VARIABLE || upper.starts_with(PREFIX)).then_some(nearest)
}

/// Returns the name that a misspelt one is most like, whatever their cases, after the number of
/// wrong letters.
pub(super) fn nearest(known: &[&'static str], name: &str) -> (usize, &'static str) {
    let lower = name.to_ascii_lowercase();
    let wrong = |known: &&'static str| (osa_distance(&known.to_ascii_lowercase(), &lower), *known);
    known.iter().map(wrong).min().unwrap_or((usize::MAX, ""))
}

/// A field that no container has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The name of the field, cut to the longest that is compared.
    pub name: Box<str>,
    /// The field that was meant; `None` if none is similar.
    pub meant: Option<&'static str>,
}

impl UnknownField {
    /// Checks the name of a field; `None` if containers have it.
    pub fn of(name: &str) -> Option<Self> {
        if FIELDS.contains(&name) {
            return None;
        }
        let cut = &name[..name.floor_char_boundary(LONGEST)];
        let (wrong, field) = nearest(&FIELDS, cut);
        Some(Self {
            name: cut.into(),
            meant: (wrong <= WRONG_IN_FIELD).then_some(field),
        })
    }
}
