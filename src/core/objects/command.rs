//! The program that a container would execute with the exit image, and so whether a swap would end
//! it.
//!
//! The pod keeps its command, environment and mounts when an image changes. A wrong guess is costly
//! (measured): under `Never` the pod becomes Failed, under `OnFailure` it loops for ever, and a
//! program on a volume simply runs again. So nothing is guessed in favour of the swap, with one
//! exception that is shown in the verdict: a file of a ConfigMap is taken for a script, unless its
//! first line is known ([`resolve_read`]).
//!
//! [`ContainerFacts`] extracts the relevant fields from the spec, once; [`resolve`] compares them
//! with the paths of an exit image.
//!
//! Mounts count twice: a program on a volume would run again, and a volume that is mounted over or
//! below a program of the exit image keeps the container from starting (measured), so an image is
//! derived that has a folder there.

pub mod expand;
mod facts;
pub mod path;
mod script;
mod view;
mod words;

use std::fmt;

use super::runs_on::RunsOn;
use crate::image::path_set::PathSet;
pub use facts::ContainerFacts;
use facts::Program;
pub use script::FirstLine;
pub use view::{ExitPaths, StandardPaths};
use view::{Found, View};
pub use words::{Note, Notes, Obstacle};

/// The interpreters that a script is assumed to name behind `#!`, itself or through `env`.
pub const INTERPRETERS: [&str; 3] = ["/bin/bash", "/bin/sh", "/usr/bin/env"];

/// The answer to whether a swap would end a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The exit image has the program that is executed.
    Runnable {
        /// The program that is executed.
        executes: Executes,
    },
    /// An exit image that has these paths as well would end it: `build_derived` of `swaplet-image`.
    NeedsImage {
        /// The program that would be executed.
        executes: Executes,
        /// The paths that are missing; sorted.
        paths: Vec<String>,
    },
    /// No exit image would end it.
    NotSwappable {
        /// The obstacle that keeps it from being swapped.
        reason: Obstacle,
        /// The path that the reason is about, if it is about one.
        path: Option<String>,
    },
}

/// The program that is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executes {
    /// The program of the exit image at this path.
    Program(String),
    /// The interpreter of the file at this path, which is assumed to be a script.
    Script(String),
    /// The interpreter that the first line of the file at this path names.
    ReadScript {
        /// The path of the script.
        path: String,
        /// The path of the interpreter.
        interpreter: String,
    },
}

impl Executes {
    /// Returns the path of the program or of the script.
    pub fn path(&self) -> &str {
        match self {
            Self::Program(path) | Self::Script(path) | Self::ReadScript { path, .. } => path,
        }
    }
}

impl fmt::Display for Executes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(path) => out.write_str(path),
            Self::Script(path) => write!(out, "{path} (assumed script)"),
            Self::ReadScript { path, interpreter } => {
                write!(out, "{path} (script of {interpreter})")
            }
        }
    }
}

/// Decides whether an exit image with these paths would end the container. Total: every container
/// has a verdict.
pub fn resolve(facts: &ContainerFacts, image: &dyn ExitPaths) -> Verdict {
    resolve_read(facts, image, &|_| None)
}

/// Like [`resolve`], on a node that says this of itself.
pub fn resolve_on(node: RunsOn, facts: &ContainerFacts, image: &dyn ExitPaths) -> Verdict {
    decide(node, facts, image, &|_| None)
}

/// Like [`resolve`], with a function that returns how the file of a ConfigMap at an absolute,
/// normalised path begins; `None` if it was not read, and is taken for a script.
pub fn resolve_read(
    facts: &ContainerFacts,
    image: &dyn ExitPaths,
    first_line: &dyn Fn(&str) -> Option<FirstLine>,
) -> Verdict {
    decide(RunsOn::default(), facts, image, first_line)
}

fn decide(
    node: RunsOn,
    facts: &ContainerFacts,
    image: &dyn ExitPaths,
    first_line: &dyn Fn(&str) -> Option<FirstLine>,
) -> Verdict {
    let view = View {
        mounts: &facts.mounts,
        image,
        first_line,
    };
    let foreign = node.or(facts.runs_on).obstacle();
    let program = facts.program.clone();
    let decided = program
        .and_then(|program| foreign.map_or(Ok(program), Err))
        .map_err(Refusal::of)
        .and_then(|program| run(&program, &view));
    decided.unwrap_or_else(|refusal| Verdict::NotSwappable {
        reason: refusal.reason,
        path: refusal.path,
    })
}

/// The obstacle and the path that it is about, if any.
struct Refusal {
    reason: Obstacle,
    path: Option<String>,
}

impl Refusal {
    fn of(reason: Obstacle) -> Self {
        Self { reason, path: None }
    }

    fn at(reason: Obstacle, path: &str) -> Self {
        Self {
            reason,
            path: Some(path.to_owned()),
        }
    }
}

fn run(program: &Program, view: &View<'_>) -> Result<Verdict, Refusal> {
    let (executes, mut paths) = match program {
        Program::Entrypoint => entrypoint(view)?,
        Program::At(path) => at(path, view)?,
        Program::Named { name, search_path } => named(name, search_path.as_deref(), view)?,
    };
    let mount_points = view.missing_mount_points()?;
    let conflict = if mount_points.is_empty() {
        Obstacle::CommandInvalid
    } else {
        Obstacle::MountOverProgram
    };
    paths.extend(mount_points);
    paths.sort_unstable();
    paths.dedup();
    if paths.len() > view::MOST_PATHS {
        return Err(Refusal::of(Obstacle::TooManyMounts));
    }
    if paths.is_empty() {
        return Ok(Verdict::Runnable { executes });
    }
    if !view.fit_together(&paths, &executes) {
        return Err(Refusal::at(conflict, executes.path()));
    }
    Ok(Verdict::NeedsImage { executes, paths })
}

type Run = (Executes, Vec<String>);

fn entrypoint(view: &View<'_>) -> Result<Run, Refusal> {
    let path = view.image.entrypoint();
    match view.covering(path) {
        Some(mount) => Err(Refusal::at(Obstacle::MountOverProgram, &mount.path)),
        None => view
            .check_below(path)
            .map(|()| (Executes::Program(path.to_owned()), Vec::new())),
    }
}

fn at(path: &str, view: &View<'_>) -> Result<Run, Refusal> {
    view.check_below(path)?;
    match view.find(path) {
        Found::InImage => Ok((Executes::Program(path.to_owned()), Vec::new())),
        Found::Missing => missing(path),
        Found::Configuration => script::run(path, view),
        Found::Volume => Err(Refusal::at(Obstacle::ProgramOnVolume, path)),
    }
}

fn missing(path: &str) -> Result<Run, Refusal> {
    PathSet::new([path]).map_err(|_| Refusal::at(Obstacle::CommandInvalid, path))?;
    Ok((Executes::Program(path.to_owned()), vec![path.to_owned()]))
}

/// Looks up a bare name in PATH: the first directory that has it counts. A volume may have it or
/// not; one behind a directory where the image could have it loses against a derived image.
fn named(name: &str, search_path: Option<&str>, view: &View<'_>) -> Result<Run, Refusal> {
    let mut free = None;
    // The runtime refuses a program found in a relative directory, and an empty entry is one.
    for directory in search_path
        .unwrap_or(view.image.search_path())
        .split(':')
        .filter_map(path::normal)
    {
        let path = format!("{}/{name}", directory.trim_end_matches('/'));
        match view.find(&path) {
            Found::InImage => return at(&path, view),
            Found::Missing
                if free.is_none() && missing(&path).is_ok() && view.check_below(&path).is_ok() =>
            {
                free = Some(path)
            }
            Found::Missing => {}
            Found::Configuration | Found::Volume if free.is_some() => break,
            Found::Configuration | Found::Volume => return at(&path, view),
        }
    }
    missing(&free.ok_or_else(|| Refusal::at(Obstacle::CommandInvalid, name))?)
}
