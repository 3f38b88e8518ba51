//! The limit of files, and so connections, that the process may have open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, like programs in Go; on failure it stays as it is.
/// Containers get a soft limit of 1024, which is meant for programs that call `select`. A burst of
/// requests to restart containers needs a watch for each pod, and each watch is a connection.
pub(in crate::cli) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bug3_as_many_files_may_be_open_as_the_hard_limit_allows() {
        // Lower than what is set, and enough for the tests beside this one.
        let before = getrlimit(Resource::Nofile);
        let low = before.maximum.map_or(4096, |maximum| maximum - 1);
        let lowered = Rlimit {
            current: Some(low),
            ..before
        };
        setrlimit(Resource::Nofile, lowered).unwrap();
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(
            (limit.current, limit.maximum),
            (before.maximum, before.maximum)
        );
    }
}
