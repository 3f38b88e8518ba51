//! The samples of `/metrics`.

use std::collections::BTreeMap;

/// The labels of a sample, by name.
pub type Labels = BTreeMap<String, String>;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: Labels,
    pub value: f64,
}

impl Sample {
    /// All that a scrape has brought.
    pub fn all(text: &str) -> Vec<Self> {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(Self::read)
            .collect()
    }

    /// `name{label="value",...} value`
    fn read(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels
            .trim_end_matches('}')
            .split("\",")
            .filter(|label| !label.is_empty());
        let pair = |label: &str| {
            let (name, value) = label.split_once("=\"").unwrap();
            (name.to_owned(), value.trim_end_matches('"').to_owned())
        };
        Self {
            name: name.to_owned(),
            labels: labels.map(pair).collect(),
            value: value.parse().unwrap(),
        }
    }
}
