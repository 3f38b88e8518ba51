//! Says how long a case took.

use std::fs::OpenOptions;
use std::io::Write as _;

use tokio::time::Instant;

/// Writes how long a case took into the file that `SWAPLET_E2E_TIMES` names, however it ends.
pub(super) struct Took {
    case: String,
    start: Instant,
}

impl Took {
    pub(super) fn new(case: &str) -> Self {
        // Tests have threads of their own, but for those that run one after the other.
        let thread = std::thread::current()
            .name()
            .filter(|name| name.contains("::"))
            .map(str::to_owned);
        Self {
            case: thread.unwrap_or_else(|| case.to_owned()),
            start: Instant::now(),
        }
    }
}

impl Drop for Took {
    fn drop(&mut self) {
        let Some(file) = std::env::var_os("SWAPLET_E2E_TIMES") else {
            return;
        };
        let failed = if std::thread::panicking() {
            " FAILED"
        } else {
            ""
        };
        let line = format!("{} {}{failed}\n", self.start.elapsed().as_secs(), self.case);
        // One write per line: other cases write at the same time.
        let written = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            println!("{}: {error}", file.display());
        }
    }
}
