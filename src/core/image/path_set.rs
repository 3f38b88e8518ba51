//! Sets of paths that can be in one image.

use std::collections::BTreeSet;

/// Directories that a container runtime mounts over: a file that an image has there is hidden.
const SHADOWED: [&str; 3] = ["/dev", "/proc", "/sys"];

/// The longest path and path component that Linux can open.
const MAX_PATH: usize = 4095;
const MAX_COMPONENT: usize = 255;

/// The error for a path that cannot be in an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path {path:?} cannot be in an image: {problem}")]
pub struct PathError {
    path: String,
    problem: &'static str,
}

/// A set of paths that can be in one image: absolute, normalised, sorted, unique, and no path is a
/// directory of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSet(BTreeSet<String>);

impl PathSet {
    /// Checks and sorts paths. Duplicates are dropped.
    ///
    /// # Errors
    /// [`PathError`] for the first path that cannot be in an image.
    pub fn new<S: AsRef<str>>(paths: impl IntoIterator<Item = S>) -> Result<Self, PathError> {
        let mut set = BTreeSet::new();
        for path in paths {
            let path = path.as_ref();
            check(path).map_err(|problem| fail(path, problem))?;
            set.insert(path.to_owned());
        }
        check_conflicts(&set)?;
        Ok(Self(set))
    }

    /// Returns the paths, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns true if the set holds this path.
    pub fn contains(&self, path: &str) -> bool {
        self.0.contains(path)
    }

    /// Returns true if this path is a directory of one in the set, or the other way round, so that
    /// they cannot be in one image.
    pub fn conflicts_with(&self, path: &str) -> bool {
        self.iter()
            .any(|other| is_below(path, other) || is_below(other, path))
    }

    /// Returns the number of paths in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the set holds no path.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns every directory above a path of the set, sorted, so that a directory comes before
    /// what it holds.
    pub fn directories(&self) -> BTreeSet<String> {
        self.iter().flat_map(parents).map(str::to_owned).collect()
    }
}

fn fail(path: &str, problem: &'static str) -> PathError {
    PathError {
        path: path.chars().take(200).collect(),
        problem,
    }
}

fn check(path: &str) -> Result<(), &'static str> {
    let Some(relative) = path.strip_prefix('/') else {
        return Err("it is not absolute");
    };
    if relative.is_empty() || path.len() > MAX_PATH || path.contains('\0') {
        return Err("Linux cannot run a file there");
    }
    if relative
        .split('/')
        .any(|part| matches!(part, "" | "." | ".."))
    {
        return Err("it is not normalised: no //, no . or .. and no / at the end");
    }
    if relative.split('/').any(|part| part.len() > MAX_COMPONENT) {
        return Err("a part of it is longer than 255 bytes");
    }
    if SHADOWED
        .iter()
        .any(|directory| path == *directory || is_below(path, directory))
    {
        return Err("the container runtime mounts something over it");
    }
    Ok(())
}

/// Returns true if `path` lies below `directory`; both are normalised.
pub fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory.trim_end_matches('/'))
        .is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
}

fn check_conflicts(set: &BTreeSet<String>) -> Result<(), PathError> {
    match set
        .iter()
        .flat_map(|path| parents(path))
        .find(|parent| set.contains(*parent))
    {
        Some(parent) => Err(fail(parent, "another path needs it to be a directory")),
        None => Ok(()),
    }
}

/// Returns the parents of a path: for `/a/b/c`, `/a` and `/a/b`.
pub(crate) fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').skip(1).map(|(end, _)| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_paths_are_refused_with_the_reason() {
        for (path, reason) in [
            ("bin/sh", "absolute"),
            ("", "absolute"),
            ("/", "cannot run"),
            ("/a\0b", "cannot run"),
            ("/a//b", "normalised"),
            ("/a/../b", "normalised"),
            ("/a/", "normalised"),
            ("/proc/self/exe", "mounts"),
            ("/dev", "mounts"),
        ] {
            let error = PathSet::new([path]).unwrap_err().to_string();
            assert!(error.contains(reason), "{path}: {error}");
        }
        assert!(PathSet::new(["/device", "/sysroot/init"]).is_ok());
    }

    #[test]
    fn a_file_cannot_be_a_directory() {
        let error = PathSet::new(["/vault", "/vault/bin/vault"]).unwrap_err();
        assert!(error.to_string().contains("\"/vault\""), "{error}");
        assert!(PathSet::new(["/vault", "/vault-agent", "/vault.d/x"]).is_ok());
    }
}
