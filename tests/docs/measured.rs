//! The columns of the table of docs/measured.md that a command has measured (`e2e/measured`, written
//! by the case `measured::long::`) are as it wrote them: `SWAPLET_UPDATE_DOCS=1 cargo test --test docs`
//! puts them there.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::markdown::root;

const FILE: &str = "docs/measured.md";
const NOT_TRIED: &str = "not tried";

/// What one kubelet and its runtime did.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    kubelet: String,
    runtime: String,
    cgroups: String,
    /// By the number of the row.
    results: BTreeMap<String, String>,
}

impl Column {
    /// Of the file with this name, such as `1.37-cri-o.json`.
    fn read(file: &str) -> Self {
        let path = root().join("e2e/measured").join(file);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; ./test long measures it", path.display()));
        serde_json::from_str(&text).unwrap()
    }

    /// Such as `1.37`, or `1.37, CRI-O`.
    fn head(&self) -> String {
        let parts = self.kubelet.trim_start_matches('v').splitn(3, '.').take(2);
        let version = parts.collect::<Vec<_>>().join(".");
        if self.runtime.starts_with("cri-o:") {
            version + ", CRI-O"
        } else {
            version
        }
    }

    /// The words about it above the table.
    fn told(&self) -> String {
        let version = self.runtime.split('+').next().unwrap_or_default();
        let runtime = version.replace("://", " ");
        format!("{} with {runtime}, cgroup {}", self.kubelet, self.cgroups)
    }
}

/// The table with these columns, each in the place of one with its head, or before the first of a
/// later version.
fn with_columns(table: &str, columns: &[Column]) -> String {
    let mut rows: Vec<Vec<String>> = table
        .lines()
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect();
    for column in columns {
        let head = column.head();
        let versions = rows[0].iter().skip(2);
        let before = versions.take_while(|cell| **cell < head).count();
        let place = 2 + before;
        let is_there = rows[0].get(place) == Some(&head);
        for (nth, row) in rows.iter_mut().enumerate() {
            let cell = match nth {
                0 => head.clone(),
                1 => "---".to_owned(),
                _ => column
                    .results
                    .get(&row[0])
                    .map_or_else(|| NOT_TRIED.to_owned(), Clone::clone),
            };
            if is_there {
                row[place] = cell;
            } else {
                row.insert(place, cell);
            }
        }
    }
    let line = |row: Vec<String>| {
        if row[0] == "---" {
            format!("|{}|\n", row.join("|"))
        } else {
            format!("| {} |\n", row.join(" | "))
        }
    };
    rows.into_iter().map(line).collect()
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.unwrap().file_name();
        name.to_str().unwrap().to_owned()
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}

/// Those that have to be there: of the everyday version, with both runtimes; and those that may be,
/// of each other version of Kubernetes that `e2e/cluster` can be.
fn files() -> (Vec<String>, Vec<String>) {
    let modules = std::fs::read_to_string(root().join("e2e/modules/cluster/go.mod")).unwrap();
    let (_, version) = modules.split_once("k8s.io/kubernetes v").unwrap();
    let everyday: Vec<_> = version.split('.').take(2).collect();
    let everyday = everyday.join(".");
    let modules = names_in("e2e/modules");
    let others = modules
        .iter()
        .filter_map(|module| module.strip_prefix("kubernetes-"));
    let runtimes = ["containerd", "cri-o"];
    let everyday = runtimes.map(|runtime| format!("{everyday}-{runtime}.json"));
    let others = others.map(|version| format!("{version}-containerd.json"));
    (everyday.into(), others.collect())
}

#[test]
fn the_columns_that_a_command_has_written_are_as_they_were_measured() {
    let (everyday, others) = files();
    let files = names_in("e2e/measured");
    assert!(everyday.iter().all(|file| files.contains(file)));
    let is_known = |file: &String| everyday.contains(file) || others.contains(file);
    assert!(files.iter().all(is_known), "{files:?}");
    let columns: Vec<_> = files.iter().map(|file| Column::read(file)).collect();
    let text = std::fs::read_to_string(root().join(FILE)).unwrap();
    for column in &columns {
        assert!(text.contains(&column.told()), "{FILE}: {}", column.told());
    }
    let start = text.find("| row | what was tried |").unwrap();
    let length = text[start..].find("\n\n").unwrap() + 1;
    let table = &text[start..start + length];
    let wanted = with_columns(table, &columns);
    let numbers: Vec<_> = wanted
        .lines()
        .filter_map(|row| row.split(' ').nth(1))
        .collect();
    for number in columns.iter().flat_map(|column| column.results.keys()) {
        assert!(numbers.contains(&&**number), "{FILE} has no row {number}");
    }
    if std::env::var_os("SWAPLET_UPDATE_DOCS").is_some() {
        std::fs::write(root().join(FILE), text.replace(table, &wanted)).unwrap();
    } else {
        assert_eq!(
            table, wanted,
            "SWAPLET_UPDATE_DOCS=1 cargo test --test docs"
        );
    }
}

#[test]
fn a_column_takes_the_place_of_its_own_or_that_of_its_version() {
    let table = "| row | what was tried | 1.36 | 1.37 |\n|---|---|---|---|\n| 1 | a | S | old |\n| 2 | b | S | old |\n";
    let column = |version: &str, runtime: &str, result: &str| Column {
        kubelet: version.to_owned(),
        runtime: runtime.to_owned(),
        cgroups: "v1".to_owned(),
        results: [("1".to_owned(), result.to_owned())].into(),
    };
    let columns = [
        column("v1.37.2", "containerd://2.4.2+unknown", "S 4/4"),
        column("v1.37.2", "cri-o://1.36.3", "F 4/4"),
        column("v1.35.8", "containerd://2.4.2+unknown", "S 3/4"),
    ];
    assert_eq!(
        with_columns(table, &columns),
        "| row | what was tried | 1.35 | 1.36 | 1.37 | 1.37, CRI-O |\n|---|---|---|---|---|---|\n\
        | 1 | a | S 3/4 | S | S 4/4 | F 4/4 |\n| 2 | b | not tried | S | not tried | not tried |\n"
    );
    assert_eq!(
        columns.each_ref().map(Column::told),
        [
            "v1.37.2 with containerd 2.4.2, cgroup v1",
            "v1.37.2 with cri-o 1.36.3, cgroup v1",
            "v1.35.8 with containerd 2.4.2, cgroup v1"
        ]
    );
}
