//! The file system that a container would see: its mounts over the exit image.

use std::collections::BTreeSet;

use super::facts::{Mount, Shape};
use super::path::{ancestors, is_below};
use super::script::FirstLine;
use super::words::Obstacle;
use super::{Executes, Refusal};
use crate::image::Kind;
use crate::image::exit::PATH;
use crate::image::exit_paths::standard_paths;
use crate::image::path_set::PathSet;
use crate::objects::pod::container_spec::Backing;

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
pub(crate) struct View<'a> {
    pub mounts: &'a [Mount],
    pub image: &'a dyn ExitPaths,
    /// Returns how the file of a ConfigMap at a path begins, if known.
    pub first_line: &'a dyn Fn(&str) -> Option<FirstLine>,
}

/// The kind of file at a path.
pub(crate) enum Found {
    InImage,
    Missing,
    /// A file of a ConfigMap, Secret or the like, if any.
    Configuration,
    /// Unknown content: a volume covers the path.
    Volume,
}

impl View<'_> {
    pub(crate) fn find(&self, path: &str) -> Found {
        match self.covering(path) {
            Some(mount) if mount.backing == Backing::Configuration => Found::Configuration,
            Some(_) => Found::Volume,
            None if self.has(path) => Found::InImage,
            None => Found::Missing,
        }
    }

    /// Returns the mount that hides the image's file at this path: the innermost one counts.
    pub(crate) fn covering(&self, path: &str) -> Option<&Mount> {
        let covers = |mount: &&Mount| *mount.path == *path || is_below(path, &mount.path);
        self.mounts
            .iter()
            .filter(covers)
            .max_by_key(|mount| mount.path.len())
    }

    /// Returns an error if a volume is mounted below a program, which would have to be a directory.
    pub(crate) fn check_below(&self, program: &str) -> Result<(), Refusal> {
        match self
            .mounts
            .iter()
            .find(|mount| is_below(&mount.path, program))
        {
            Some(mount) => Err(Refusal::at(Obstacle::MountOverProgram, &mount.path)),
            None => Ok(()),
        }
    }

    /// Returns the paths that make directories for mounts in a derived image. A runtime mounts no
    /// directory over a file, and none below a file: if the exit image has a program in the way of
    /// a mount, another image has to have a directory there.
    pub(crate) fn missing_mount_points(&self) -> Result<BTreeSet<String>, Refusal> {
        let mut paths = BTreeSet::new();
        for mount in self.mounts {
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
            Shape::Directory => &*mount.path,
            Shape::File | Shape::Either => {
                mount.path.rsplit_once('/').map_or("", |(parent, _)| parent)
            }
        };
        Ok((!self.is_hidden(program)).then(|| format!("{directory}/{PLACE_HOLDER}")))
    }

    /// Returns true if a mount hides the program, which is then not in the way of others.
    fn is_hidden(&self, program: &str) -> bool {
        let is_mounted = |path: &str| {
            self.mounts
                .binary_search_by(|mount| (*mount.path).cmp(path))
                .is_ok()
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
    pub(crate) fn fit_together(&self, paths: &[String], executes: &Executes) -> bool {
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
