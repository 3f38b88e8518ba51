//! The flags of earlier versions that are gone, of every subcommand. Each is refused with what to
//! use instead; those of `run` also as a variable and as a key of the file of `--config`: ignoring
//! one would hide that it has no effect.

use std::ffi::OsString;

use clap::Command;

const TAGS: &str = "tags are no longer pinned: write digests into the images";
const SHAPES: &str = "the node decides what warmer pods are";

/// Each flag that `run` had, and the sentence about it.
const OF_RUN: [(&str, &str); 5] = [
    (
        "allow-host",
        "the registry that you name is asked wherever it is",
    ),
    ("pin-credentials", TAGS),
    ("pin-private-registries", TAGS),
    (
        "sidecar-log-bytes",
        "the last lines of sidecars are no longer read: collect logs on the node, or read them with `kubectl logs` before the pod ends",
    ),
    ("warm-shape", SHAPES),
];

/// Each other flag. They had no variables.
const OF_OTHERS: [(&str, &str); 2] = [("pin", TAGS), ("shape", SHAPES)];

/// Returns the variable of a flag of `run`.
pub(super) fn variable(flag: &str) -> String {
    format!("SWAPLET_{}", flag.replace('-', "_").to_uppercase())
}

/// Returns why a flag or key of this name is refused, if it is gone.
pub(super) fn refusal(flag: &str) -> Option<String> {
    let mut removed = OF_RUN.iter().chain(&OF_OTHERS);
    let (flag, sentence) = removed.find(|(gone, _)| *gone == flag)?;
    Some(format!("--{flag} is gone: {sentence}"))
}

/// Returns why the variables are refused, if one of them is that of a flag which `run` no longer
/// has.
pub(super) fn refused_variable(
    run: &Command,
    value: impl Fn(&str) -> Option<OsString>,
) -> Option<String> {
    let is_there = |flag: &str| run.get_arguments().any(|arg| arg.get_long() == Some(flag));
    OF_RUN.iter().find_map(|(flag, sentence)| {
        let variable = variable(flag);
        let is_set = value(&variable).is_some_and(|value| !value.is_empty());
        (is_set && !is_there(flag)).then(|| format!("{variable} is gone: {sentence}"))
    })
}
