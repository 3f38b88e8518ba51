//! Paths as the kernel of a container resolves them. The exit image has no symbolic links, so
//! mostly the text alone decides.

pub use crate::image::path_set::is_below;
use crate::image::path_set::parents;

/// Returns the absolute, normalised path of a program that is written with a slash. `None` if it
/// depends on directories whose existence is unknown (`x/../y` needs the directory `x`), names a
/// directory, or cannot be a path.
pub fn locate(written: &str, working_dir: &str) -> Option<String> {
    if written.ends_with(['/', '\0']) || written.contains('\0') || written.ends_with("/.") {
        return None;
    }
    let mut parts = if written.starts_with('/') {
        Vec::new()
    } else {
        directory(working_dir)?
    };
    let mut descended = false;
    for part in written.split('/') {
        match part {
            "" | "." => {}
            // The working directory exists: a runtime makes it if the image has none.
            ".." if !descended => drop(parts.pop()),
            ".." => return None,
            name => {
                descended = true;
                parts.push(name);
            }
        }
    }
    descended.then(|| joined(&parts))
}

/// Normalises an absolute path; `None` for a relative one.
pub fn normal(written: &str) -> Option<String> {
    directory(written).map(|parts| joined(&parts))
}

/// Returns the ancestors of a path: for `/a/b`, `/a` and, as the last, itself.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    parents(path).chain([path])
}

fn directory(written: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    for part in written.strip_prefix('/')?.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    Some(parts)
}

fn joined(parts: &[&str]) -> String {
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_located() {
        for (written, working_dir, expected) in [
            ("/bin/sh", "/x", Some("/bin/sh")),
            ("//bin/./sh", "/", Some("/bin/sh")),
            ("./run.sh", "/app", Some("/app/run.sh")),
            ("bin/x", "/", Some("/bin/x")),
            ("bin/x", "/app/", Some("/app/bin/x")),
            ("../run", "/app/bin", Some("/app/run")),
            ("/../run", "/app", Some("/run")),
            ("a/../run", "/app", None),
            ("bin/", "/app", None),
            ("bin/.", "/app", None),
            ("bin/..", "/app", None),
            ("/", "/", None),
            ("./x", "app", None),
            ("/a\0b", "/", None),
        ] {
            assert_eq!(
                locate(written, working_dir).as_deref(),
                expected,
                "{written} in {working_dir}"
            );
        }
    }

    #[test]
    fn below_is_about_whole_parts() {
        assert!(is_below("/a/b", "/a") && is_below("/a", "/") && is_below("/a/b/c", "/a/"));
        assert!(!is_below("/ab", "/a") && !is_below("/a", "/a") && !is_below("/", "/"));
    }

    #[test]
    fn ancestors_end_with_the_path() {
        assert_eq!(
            ancestors("/a/b/c").collect::<Vec<_>>(),
            ["/a", "/a/b", "/a/b/c"]
        );
    }
}
