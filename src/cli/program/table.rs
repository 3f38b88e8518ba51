//! The output of subcommands: a table like kubectl's, JSON or YAML.

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::Value;
pub use swaplet_edge::table::{aligned, dash, printable};

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Wide,
    Json,
    Yaml,
    /// KIND/NAME, one a line
    Name,
}

impl Output {
    /// Returns true if the output is for people.
    pub const fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// A line of a table: its cells, each with the name of its column.
pub type Line = Vec<(&'static str, String)>;

/// Renders a table; JSON, YAML and names come from `value`.
pub fn render(output: Output, lines: &[Line], value: &Value) -> anyhow::Result<String> {
    Ok(match output {
        Output::Table | Output::Wide => table(lines),
        Output::Json => json(value),
        Output::Yaml => yaml(value)?,
        Output::Name => names(value),
    })
}

/// Returns `KIND/NAME` of each object in a value, once. The value has one list; an entry has `pod`,
/// `kind` and `name`, a `name` of the kind that the list is named after, or `node`.
fn names(value: &Value) -> String {
    let fields = value.as_object().into_iter().flatten();
    let mut lists = fields.filter_map(|(key, list)| Some((key, list.as_array()?)));
    let is_of_objects = |entries: &[Value]| entries.first().is_none_or(Value::is_object);
    let Some((plural, entries)) = lists.find(|(_, entries)| is_of_objects(entries)) else {
        return String::new();
    };
    let text = |entry: &Value, key: &str| entry[key].as_str().map(str::to_lowercase);
    let of_entry = |entry: &Value| {
        let kind = text(entry, "kind");
        let kind = kind.unwrap_or_else(|| plural.trim_end_matches('s').to_owned());
        let pod = text(entry, "pod").map(|pod| format!("pod/{pod}"));
        pod.or_else(|| Some(format!("{kind}/{}", text(entry, "name")?)))
            .or_else(|| Some(format!("node/{}", text(entry, "node")?)))
    };
    let mut seen = BTreeSet::new();
    let lines = entries.iter().filter_map(of_entry);
    lines
        .filter(|name| seen.insert(name.clone()))
        .map(|name| printable(&name) + "\n")
        .collect()
}

pub fn json(value: &Value) -> String {
    format!("{value:#}\n")
}

pub fn yaml(value: &Value) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(value)?)
}

/// Renders the lines below the names of their columns, or nothing without lines.
pub fn table(lines: &[Line]) -> String {
    let Some(first) = lines.first() else {
        return String::new();
    };
    let names = first.iter().map(|(name, _)| (*name).to_owned()).collect();
    let cells = |line: &Line| line.iter().map(|(_, cell)| dash(cell)).collect();
    let lines = std::iter::once(names).chain(lines.iter().map(cells));
    aligned(&lines.collect::<Vec<_>>())
}

/// Formats a count: `1 image`, `2 images`.
pub fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Says how many pods wait: `1 pod waits`, `2 pods wait`.
pub fn pods_wait(number: usize) -> String {
    match number {
        1 => "1 pod waits".to_owned(),
        _ => format!("{number} pods wait"),
    }
}

/// Returns the verb after a number of things.
pub const fn are(number: usize) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// Appends a section: its title, and its body below it.
pub fn section(text: &mut String, title: &str, body: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{title}:");
    for line in body.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

/// Formats the time between two timestamps in the largest unit that makes two of it, as kubectl
/// does.
pub fn age(from: Timestamp, to: Timestamp) -> String {
    let seconds = from.duration_until(to).as_secs().max(0);
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let unit = units.into_iter().find(|(unit, _)| seconds >= 2 * unit);
    unit.map_or_else(
        || format!("{seconds}s"),
        |(unit, name)| format!("{}{name}", seconds / unit),
    )
}

/// Prints progress on standard error, because standard output may be read by programs.
pub fn report(line: &str) {
    say!("{}", printable(line));
}

/// Prints a remark on standard error.
pub fn note(words: &str) {
    say!("note: {}", printable(words));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_aligned_and_nothing_draws() {
        let lines = [["long-name", "x"], ["\u{1b}[2J", "y\u{202e}z"], ["", "-"]]
            .map(|[name, b]| vec![("NAME", name.to_owned()), ("B", b.to_owned())]);
        assert_eq!(
            table(&lines),
            "NAME        B\nlong-name   x\n?[2J        y?z\n-           -\n"
        );
        assert_eq!(render(Output::Wide, &[], &Value::Null).unwrap(), "");
    }

    #[test]
    fn names_are_those_that_kubectl_takes() {
        let shown = |value| render(Output::Name, &[], &value).unwrap();
        assert_eq!(
            shown(json!({"nodes": [{"name": "n-1"}, {"name": "n-2"}]})),
            "node/n-1\nnode/n-2\n"
        );
        assert_eq!(
            shown(
                json!({"parked": [{"pod": "a", "container": "c"}, {"pod": "a", "container": "d"}]})
            ),
            "pod/a\n"
        );
        assert_eq!(
            shown(json!({"problems": ["x"], "sidecars": [{"kind": "CronJob", "name": "a"}]})),
            "cronjob/a\n"
        );
        assert_eq!(
            shown(json!({"results": [{"node": "n", "image": "i"}], "other": 1})),
            "node/n\n"
        );
        assert_eq!(shown(json!({"nodes": []})), "");
    }

    #[test]
    fn ages_are_counted_as_kubectl_does() {
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7199, "119m"),
            (7200, "2h"),
            (200_000, "2d"),
        ] {
            assert_eq!(
                age(
                    Timestamp::UNIX_EPOCH,
                    Timestamp::from_second(seconds).unwrap()
                ),
                text
            );
        }
    }
}
