//! The exit codes, the same for every command: `docs/cli/README.md` is made of this table.

use std::process::ExitCode;

/// The answer is no, or something failed, as the help of the command says.
pub const FAILED: u8 = 1;
/// The usage is wrong, what was named is not there, or the cluster cannot be asked.
pub const CANNOT: u8 = 2;
/// The exit code that shells report for a program that Ctrl-C has ended.
pub const INTERRUPTED: u8 = 130;

/// The exit codes, each with its meaning.
pub const TABLE: [(u8, &str); 4] = [
    (0, "done, or the answer is yes"),
    (
        FAILED,
        "the answer is no, or something failed, as the help of the command says",
    ),
    (
        CANNOT,
        "wrong usage, no such object, or the cluster cannot be queried",
    ),
    (INTERRUPTED, "interrupted by Ctrl-C"),
];

/// Returns the exit code 0 if all is well, else this one.
pub fn code(is_well: bool, otherwise: u8) -> ExitCode {
    ExitCode::from(if is_well { 0 } else { otherwise })
}

/// Returns the table for a help text.
pub fn help() -> String {
    let rows = TABLE.map(|(code, meaning)| format!("\n  {code:<5}{meaning}"));
    format!("Exit codes:{}", rows.concat())
}
