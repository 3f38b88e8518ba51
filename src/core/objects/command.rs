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
//! below a program of the exit image keeps the container from starting (measured), as does a working
//! directory there, so an image is derived that has a folder there.

pub mod expand;
mod facts;
pub mod path;
mod words;

use std::collections::BTreeSet;
use std::fmt;

pub use self::facts::ContainerFacts;
use self::facts::{Mount, Program, Shape};
use self::path::{ancestors, is_below};
pub use self::words::{Note, Notes, Obstacle};
use super::runs_on::RunsOn;
use crate::image::Kind;
use crate::image::exit::PATH;
use crate::image::exit_paths::standard_paths;
use crate::image::path_set::PathSet;
use crate::objects::pod::container_spec::Backing;

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
    decided.unwrap_or_else(|Refusal { reason, path }| Verdict::NotSwappable { reason, path })
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
    if paths.len() > MOST_PATHS {
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
        Found::Configuration => run_script(path, view),
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

// The file system that a container would see: its mounts over the exit image.

/// The name of the file that makes its parent a directory in a derived image, so that a volume can
/// be mounted there.
const PLACE_HOLDER: &str = ".swaplet";
/// The most paths that one derived image has; ordinary ones have a few.
pub(crate) const MOST_PATHS: usize = 64;

/// The paths at which an exit image has its program. Implemented by closures and [`PathSet`].
pub trait ExitPaths {
    /// Returns true if the program is at this absolute, normalised path.
    fn has(&self, path: &str) -> bool;

    /// Returns the path of the program that is started without a command.
    fn entrypoint(&self) -> &str {
        Kind::Exit.program_path()
    }

    /// Returns the image's own PATH.
    fn search_path(&self) -> &str {
        PATH
    }
}

impl<F: Fn(&str) -> bool> ExitPaths for F {
    fn has(&self, path: &str) -> bool {
        self(path)
    }
}

impl ExitPaths for PathSet {
    fn has(&self, path: &str) -> bool {
        self.contains(path)
    }
}

/// The standard exit image.
#[derive(Clone, Copy, Debug)]
pub struct StandardPaths;

impl ExitPaths for StandardPaths {
    fn has(&self, path: &str) -> bool {
        standard_paths()
            .binary_search_by(|entry| entry.path.cmp(path))
            .is_ok()
    }
}

/// The file system of the container if it were started with the exit image.
struct View<'a> {
    mounts: &'a [Mount],
    image: &'a dyn ExitPaths,
    /// Returns how the file of a ConfigMap at a path begins, if known.
    first_line: &'a dyn Fn(&str) -> Option<FirstLine>,
}

/// Returns the path that makes this a directory.
fn place_holder(directory: &str) -> String {
    format!("{directory}/{PLACE_HOLDER}")
}

/// The kind of file at a path.
enum Found {
    InImage,
    Missing,
    /// A file of a ConfigMap, Secret or the like, if any.
    Configuration,
    /// Unknown content: a volume covers the path.
    Volume,
}

impl View<'_> {
    fn find(&self, path: &str) -> Found {
        match self.covering(path) {
            Some(mount) if matches!(mount.backing, Backing::Configuration { .. }) => {
                Found::Configuration
            }
            Some(_) => Found::Volume,
            None if self.has(path) => Found::InImage,
            None => Found::Missing,
        }
    }

    /// Returns the mount that hides the image's file at this path: the innermost one counts.
    fn covering(&self, path: &str) -> Option<&Mount> {
        let covers = |mount: &&Mount| *mount.path == *path || is_below(path, &mount.path);
        self.volumes()
            .filter(covers)
            .max_by_key(|mount| mount.path.len())
    }

    fn volumes(&self) -> impl Iterator<Item = &Mount> {
        let mounts = self.mounts.iter();
        mounts.filter(|mount| mount.shape != Shape::WorkingDirectory)
    }

    /// Returns the directory that a runtime makes before it starts the program: the working directory,
    /// unless a volume has it.
    fn made_directory(&self) -> Option<&str> {
        let mut mounts = self.mounts.iter();
        let dir = mounts.find(|mount| mount.shape == Shape::WorkingDirectory)?;
        self.covering(&dir.path).is_none().then_some(&*dir.path)
    }

    /// Returns an error if a volume is mounted below a program, which would have to be a directory, or
    /// the working directory is there.
    fn check_below(&self, program: &str) -> Result<(), Refusal> {
        let mounts = self.volumes().map(|mount| &*mount.path);
        let below = mounts.filter(|path| is_below(path, program));
        let made = self.made_directory();
        let made = made.filter(|dir| *dir == program || is_below(dir, program));
        match below.chain(made).next() {
            Some(path) => Err(Refusal::at(Obstacle::MountOverProgram, path)),
            None => Ok(()),
        }
    }

    /// Returns the paths that make directories for mounts in a derived image. A runtime mounts no
    /// directory over a file, and none below a file: if the exit image has a program in the way of
    /// a mount, or of the directory in which it starts, another image has to have a directory there.
    fn missing_mount_points(&self) -> Result<BTreeSet<String>, Refusal> {
        let made = self.made_directory();
        let made = made.filter(|dir| ancestors(dir).any(|path| self.has(path)));
        let mut paths: BTreeSet<_> = made.map(place_holder).into_iter().collect();
        for mount in self.volumes() {
            let Some(program) = ancestors(&mount.path).find(|path| self.has(path)) else {
                continue;
            };
            paths.extend(self.mount_point(mount, program)?);
            if paths.len() > MOST_PATHS {
                return Err(Refusal::of(Obstacle::TooManyMounts));
            }
        }
        Ok(paths)
    }

    fn mount_point(&self, mount: &Mount, program: &str) -> Result<Option<String>, Refusal> {
        let directory = match mount.shape {
            Shape::File if program == &*mount.path => return Ok(None),
            Shape::Either if program == &*mount.path => {
                return Err(Refusal::at(Obstacle::MountOverProgram, &mount.path));
            }
            Shape::Directory | Shape::WorkingDirectory => &*mount.path,
            Shape::File | Shape::Either => {
                mount.path.rsplit_once('/').map_or("", |(parent, _)| parent)
            }
        };
        Ok((!self.is_hidden(program)).then(|| place_holder(directory)))
    }

    /// Returns true if a mount hides the program, which is then not in the way of others.
    fn is_hidden(&self, program: &str) -> bool {
        let is_mounted = |path: &str| {
            let nth = self.mounts.partition_point(|mount| *mount.path < *path);
            let here = self.mounts[nth..].iter();
            let mut here = here.take_while(|mount| *mount.path == *path);
            here.any(|mount| mount.shape != Shape::WorkingDirectory)
        };
        is_mounted("/")
            || ancestors(program)
                .filter(|path| *path != program)
                .any(is_mounted)
    }

    fn has(&self, path: &str) -> bool {
        self.image.has(path) || self.image.entrypoint() == path
    }

    /// Returns true if one image can have all these paths beside the executed program.
    fn fit_together(&self, paths: &[String], executes: &Executes) -> bool {
        let executed = match executes {
            Executes::Program(path) => Some(path.as_str()),
            Executes::ReadScript { interpreter, .. } => Some(interpreter.as_str()),
            Executes::Script(_) => None,
        };
        PathSet::new(
            paths
                .iter()
                .map(String::as_str)
                .chain(executed)
                .chain([self.image.entrypoint()]),
        )
        .is_ok()
    }
}

// Programs that are files of a ConfigMap, Secret or the like: scripts.

/// The number of bytes of a file in which the kernel looks for the interpreter (`BINPRM_BUF_SIZE`).
const LOOKED_AT: usize = 256;

/// The beginning of a file, as far as it decides what the kernel would execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstLine {
    /// `#!` and this path, as it is written.
    Interpreter(Box<str>),
    /// The head of a program that needs no interpreter (ELF).
    Program,
    /// Neither, so the file cannot be executed.
    Neither,
}

impl FirstLine {
    /// Reads the first bytes of a file like Linux does.
    pub fn read(content: &[u8]) -> Self {
        let head = &content[..content.len().min(LOOKED_AT)];
        if head.starts_with(b"\x7fELF") {
            return Self::Program;
        }
        let line = head
            .strip_prefix(b"#!")
            .and_then(|rest| rest.split(|byte| matches!(byte, b'\n' | b'\0')).next());
        let mut words = line
            .unwrap_or_default()
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        match words.next().map(std::str::from_utf8) {
            Some(Ok(interpreter)) => Self::Interpreter(interpreter.into()),
            _ => Self::Neither,
        }
    }
}

/// Resolves a script. The kernel starts its interpreter, which is the exit image's.
fn run_script(script: &str, view: &View<'_>) -> Result<Run, Refusal> {
    match (view.first_line)(script) {
        None => assumed_script(script, view),
        Some(FirstLine::Interpreter(written)) => read_script(script, &written, view),
        Some(FirstLine::Program) => Err(Refusal::at(Obstacle::ProgramOnVolume, script)),
        Some(FirstLine::Neither) => Err(Refusal::at(Obstacle::CommandInvalid, script)),
    }
}

fn read_script(script: &str, written: &str, view: &View<'_>) -> Result<Run, Refusal> {
    let interpreter =
        path::normal(written).ok_or_else(|| Refusal::at(Obstacle::CommandInvalid, script))?;
    view.check_below(&interpreter)?;
    let paths = match view.find(&interpreter) {
        Found::InImage => Vec::new(),
        Found::Missing => missing(&interpreter)?.1,
        Found::Configuration | Found::Volume => {
            return Err(Refusal::at(Obstacle::ProgramOnVolume, &interpreter));
        }
    };
    let path = script.to_owned();
    Ok((Executes::ReadScript { path, interpreter }, paths))
}

/// Resolves a script that was not read: every usual interpreter has to be the exit image's.
fn assumed_script(script: &str, view: &View<'_>) -> Result<Run, Refusal> {
    let mut paths = Vec::new();
    for interpreter in INTERPRETERS {
        view.check_below(interpreter)?;
        match view.find(interpreter) {
            Found::InImage => {}
            Found::Missing => paths.push(interpreter.to_owned()),
            Found::Configuration | Found::Volume => {
                return Err(Refusal::at(Obstacle::ProgramOnVolume, interpreter));
            }
        }
    }
    Ok((Executes::Script(script.to_owned()), paths))
}

#[cfg(test)]
mod script_tests {
    use super::*;

    #[test]
    fn a_file_begins_as_linux_reads_it() {
        let interpreter = |path: &str| FirstLine::Interpreter(path.into());
        for (content, begins) in [
            ("#!/bin/sh\nexec x\n", interpreter("/bin/sh")),
            ("#! \t/usr/bin/env  python3\n", interpreter("/usr/bin/env")),
            ("#!/bin/sh", interpreter("/bin/sh")),
            ("#!/bin/sh\r\n", interpreter("/bin/sh\r")),
            ("\u{7f}ELF\u{2}", FirstLine::Program),
            ("exec x\n#!/bin/sh\n", FirstLine::Neither),
            ("\u{feff}#!/bin/sh\n", FirstLine::Neither),
            ("#!\n/bin/sh", FirstLine::Neither),
            ("#!", FirstLine::Neither),
            ("", FirstLine::Neither),
        ] {
            assert_eq!(FirstLine::read(content.as_bytes()), begins, "{content:?}");
        }
        let endless = format!("#!/{}", "a".repeat(1 << 20));
        let FirstLine::Interpreter(path) = FirstLine::read(endless.as_bytes()) else {
            panic!("it names an interpreter");
        };
        assert!(path.len() < LOOKED_AT);
    }
}
