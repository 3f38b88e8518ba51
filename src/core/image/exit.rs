//! The bundled programs, and the kinds of images that they make.

use std::fmt;

use strum::{Display, IntoStaticStr};

pub use super::exit_paths::{StandardPath, standard_paths};
use super::label::Label;

/// The directories in which a bare command name is looked up, unless the pod sets its own PATH.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The behaviour of an image of ours when it runs. The two never share a reference: a container
/// that was to be parked would end, or one that was to end would stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Exits 0 at once, whatever it is called with.
    Exit,
    /// Stays until SIGTERM, then exits 143, because the parked container has not done its work.
    Park,
}

impl Kind {
    /// Returns the path of the program in the image. Its own directory, so that no sidecar's path
    /// can collide with it.
    pub fn program_path(self) -> &'static str {
        match self {
            Self::Exit => "/swaplet/quick-exit",
            Self::Park => "/swaplet/park",
        }
    }

    /// Returns the program for a platform: a static ELF file.
    pub fn program(self, platform: Platform) -> &'static [u8] {
        match (self, platform) {
            (Self::Exit, Platform::Amd64) => {
                include_bytes!("../../../quick-exit-image/bin/quick-exit-x86_64")
            }
            (Self::Exit, Platform::Arm64) => {
                include_bytes!("../../../quick-exit-image/bin/quick-exit-aarch64")
            }
            (Self::Park, Platform::Amd64) => {
                include_bytes!("../../../quick-exit-image/bin/park-x86_64")
            }
            (Self::Park, Platform::Arm64) => {
                include_bytes!("../../../quick-exit-image/bin/park-aarch64")
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Label::from(*self).fmt(out)
    }
}

/// A platform that every image of ours is built for; the operating system is always Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Display, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Platform {
    /// 64-bit x86.
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl Platform {
    /// All platforms, in the order of the image index.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Returns the name of the architecture in image configurations and indexes.
    pub fn architecture(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::path_set::PathSet;

    #[test]
    fn programs_are_small_elf_files() {
        for kind in [Kind::Exit, Kind::Park] {
            for platform in Platform::ALL {
                let program = kind.program(platform);
                assert!(program.starts_with(b"\x7fELF"), "{kind} {platform}");
                assert!(
                    program.len() <= 4096,
                    "{kind} {platform}: {}",
                    program.len()
                );
            }
        }
    }

    #[test]
    fn standard_paths_are_sorted_and_unique() {
        for pair in standard_paths().windows(2) {
            assert!(
                pair[0].path < pair[1].path,
                "{} stands before {}",
                pair[0].path,
                pair[1].path
            );
        }
    }

    #[test]
    fn standard_paths_are_absolute_normalised_and_none_is_a_directory_of_another() {
        PathSet::new(standard_paths().iter().map(|entry| entry.path)).unwrap();
    }

    #[test]
    fn every_standard_path_says_where_it_comes_from() {
        assert!(standard_paths().iter().all(|entry| entry.source.len() > 8));
    }

    #[test]
    fn usual_bare_names_are_found_in_path() {
        let has = |path: String| standard_paths().iter().any(|entry| entry.path == path);
        let found = |name: &str| {
            PATH.split(':')
                .any(|directory| has(format!("{directory}/{name}")))
        };
        for name in [
            "sh",
            "bash",
            "sleep",
            "tail",
            "env",
            "python",
            "java",
            "envoy",
            "filebeat",
            "agent",
            "trace-agent",
            "nginx",
            "dumb-init",
            "dockerd",
        ] {
            assert!(found(name), "{name}");
        }
    }
}
