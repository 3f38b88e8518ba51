//! The report as workflow commands of GitHub, which shows them beside the files of a pull request.

use super::{Report, is_ok};
use crate::cli::check::rows::Row;
use crate::cli::check::settings::Settings;
use crate::cli::program::table::printable;

/// The title of a line that is about no object.
const PROGRAM: &str = "swaplet check";

/// Renders a line for each sidecar that does not end, and for each hint.
pub(in crate::cli::check) fn render(report: &Report, settings: &Settings) -> String {
    let mut lines = String::new();
    for problem in &report.problems {
        lines.push_str(&command("error", None, PROGRAM, &format!("{problem:#}")));
    }
    for row in &report.rows {
        let title = format!("{} {}", row.verdict(), row.container);
        let about = format!("{}/{}, container {}", row.kind, row.name, row.container);
        if !is_ok(row, settings) {
            let text = format!("{about}: {}", row.to_do().whole());
            lines.push_str(&command("error", file(row), &title, &text));
        }
        for warning in &row.warnings {
            let text = format!("{about}: {warning}");
            lines.push_str(&command("warning", file(row), &title, &text));
        }
    }
    for hint in &report.hints {
        let place = hint.place();
        let title = place.as_deref().unwrap_or(PROGRAM);
        lines.push_str(&command("warning", hint.file(), title, &hint.words()));
    }
    lines
}

fn file(row: &Row) -> Option<&str> {
    row.file.as_deref().filter(|file| *file != "-")
}

fn command(level: &str, file: Option<&str>, title: &str, text: &str) -> String {
    let file = file.map(|file| format!("file={},", property(file)));
    let file = file.unwrap_or_default();
    let title = property(title);
    format!("::{level} {file}title={title}::{}\n", data(text))
}

/// Escapes text from manifests, so that it is never a command of its own: no line ends in it.
fn data(text: &str) -> String {
    printable(text).replace('%', "%25")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_a_command_of_its_own() {
        let line = command(
            "error",
            Some("a,b:c%.yaml"),
            "x",
            "one\n::stop-commands::x\r%0A",
        );
        assert_eq!(
            line,
            "::error file=a%2Cb%3Ac%25.yaml,title=x::one?::stop-commands::x?%250A\n"
        );
    }
}
