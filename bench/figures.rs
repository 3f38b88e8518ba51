//! Figures that are written down in a file, and what is wrong with those of today: for the tests
//! that hold what a pod event costs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Set, it has the files written anew.
const UPDATE: &str = "SWAPLET_UPDATE_COSTS";

/// A file of figures.
pub struct Figures {
    /// Where it is in the repository.
    pub file: &'static str,
    /// What its figures are, in a line.
    pub about: &'static str,
    /// A figure may be higher by this share.
    pub higher: f64,
    /// One that is lower by more than this share is out of date.
    pub lower: f64,
}

impl Figures {
    /// Fails where the figures of today are not those of the file.
    pub fn hold(&self, today: &BTreeMap<String, usize>) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.file);
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&file, self.written(today)).unwrap();
        }
        let known = read(&std::fs::read_to_string(file).unwrap());
        assert!(
            known.keys().eq(today.keys()),
            "{} has other rows: {:?}",
            self.file,
            known.keys()
        );
        let complaints: Vec<_> = today
            .iter()
            .filter_map(|(what, is)| self.complaint(what, known[what], *is))
            .collect();
        assert!(
            complaints.is_empty(),
            "{}\n{UPDATE}=1 ./test costs writes the file anew; say in the commit why it costs what it does",
            complaints.join("\n")
        );
    }

    /// What is wrong with a figure, if something is.
    pub fn complaint(&self, what: &str, was: usize, is: usize) -> Option<String> {
        let change = is as f64 / was as f64 - 1.0;
        let words = if change > self.higher {
            "more than it was"
        } else if change < -self.lower {
            "less, so that the file holds it no longer"
        } else {
            return None;
        };
        let percent = 100.0 * change.abs();
        Some(format!(
            "{what}: {is}, and {was} in {}: {percent:.1} % {words}",
            self.file
        ))
    }

    fn written(&self, figures: &BTreeMap<String, usize>) -> String {
        let mut text = format!("# {}: {UPDATE}=1 ./test costs\n", self.about);
        for (what, value) in figures {
            writeln!(text, "{what}: {value}").unwrap();
        }
        text
    }
}

fn read(text: &str) -> BTreeMap<String, usize> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (what, value) = line.split_once(": ").unwrap();
            (what.to_owned(), value.parse().unwrap())
        })
        .collect()
}
