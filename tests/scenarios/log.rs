//! What the controllers of a test log, from warnings on.

use std::cell::RefCell;
use std::io::Write;

thread_local! {
    /// The log from warnings on: each test has a thread of its own.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes to the log of the thread.
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Keeps the log of this thread from now on. Once for all tests: a subscriber for each would be
/// seen by some threads too late.
pub fn keep_log() {
    let builder = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(|| Log);
    let _ = tracing::subscriber::set_global_default(builder.finish());
    LOG.with_borrow_mut(Vec::clear);
}

/// The lines so far that contain these words.
pub fn logged(words: &str) -> Vec<String> {
    // Fields are written as a debugger would show them.
    let text = LOG
        .with_borrow(|log| String::from_utf8(log.clone()).unwrap())
        .replace("\\\"", "\"");
    text.lines()
        .filter(|line| line.contains(words))
        .map(str::to_owned)
        .collect()
}
