//! The rooms of the house are crates: which may depend on which stands in `docs/architecture.md`,
//! and in their manifests.

use std::collections::BTreeSet;

use crate::markdown::root;

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// What the table of the map says: the folder of each room, and the rooms that it may depend on.
fn rooms(map: &str) -> Vec<(String, BTreeSet<String>)> {
    let rows = map.lines().filter(|line| line.starts_with("| `src/"));
    let cells = rows.map(|row| {
        row.trim_matches('|')
            .split(" | ")
            .map(str::trim)
            .collect::<Vec<_>>()
    });
    let room = |cells: Vec<&str>| {
        let folder = cells[0].trim_matches(['`', '/', ' ']).to_owned();
        let may = cells[3]
            .split(", ")
            .filter(|room| *room != "no other room")
            .map(str::to_owned)
            .collect();
        (
            if folder == "src/cli" {
                String::new()
            } else {
                folder + "/"
            },
            may,
        )
    };
    cells.map(room).collect()
}

/// The names of the dependencies of a crate, those of its tests left out.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest
        .split("\n[")
        .find_map(|section| section.strip_prefix("dependencies]\n"))
        .unwrap();
    section
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_room_depends_on_what_the_map_allows_and_core_on_nothing_that_waits() {
    let rooms = rooms(&read("docs/architecture.md"));
    assert_eq!(rooms.len(), 7);
    for (folder, may) in rooms {
        let all = dependencies(&read(&format!("{folder}Cargo.toml")));
        let does: BTreeSet<_> = all
            .iter()
            .filter_map(|name| name.strip_prefix("swaplet-"))
            .map(str::to_owned)
            .collect();
        assert_eq!(does, may, "{folder}");
        let waits = [
            "kube",
            "kube-client",
            "tokio",
            "futures",
            "hyper",
            "reqwest",
            "oci-distribution",
        ];
        assert!(
            folder != "src/core/" || waits.iter().all(|name| !all.contains(*name)),
            "{all:?}"
        );
    }
}

/// The rooms of a crate that its files name by `crate::`, those of their tests left out.
fn imports(room: &str) -> BTreeSet<String> {
    let files = std::process::Command::new("git")
        .args([
            "ls-files",
            &format!("src/{room}.rs"),
            &format!("src/{room}/*.rs"),
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let files = String::from_utf8(files.stdout).unwrap();
    let texts = files
        .lines()
        .filter(|file| !file.contains("/tests"))
        .map(read);
    let code = texts.map(|text| text.split("#[cfg(test)]").next().unwrap().to_owned());
    let lines: Vec<String> = code
        .flat_map(|text| {
            text.lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    let named = lines
        .iter()
        .flat_map(|line| line.split("crate::").skip(1))
        .filter_map(|rest| {
            rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        });
    named
        .filter(|name| !room.ends_with(&format!("/{name}")))
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_room_of_core_and_controller_imports_what_the_map_says() {
    let map = read("docs/architecture.md");
    let rows = map
        .lines()
        .filter(|line| line.starts_with("| `core/") || line.starts_with("| `controller/"));
    let mut count = 0;
    for cells in rows.map(|row| {
        row.trim_matches('|')
            .split(" | ")
            .map(str::trim)
            .collect::<Vec<_>>()
    }) {
        let room = cells[0].trim_matches('`');
        let may: BTreeSet<_> = cells[2]
            .split(", ")
            .filter(|name| *name != "nothing")
            .map(str::to_owned)
            .collect();
        assert_eq!(imports(room), may, "{room}");
        count += 1;
    }
    assert_eq!(count, 17);
}

/// The names of the test programs that `cargo test` runs.
fn test_programs(manifest: &str) -> Vec<String> {
    let sections = manifest
        .split("\n[[test]]\n")
        .skip(1)
        .map(|section| section.split("\n[").next().unwrap());
    let runs = sections.filter(|section| !section.contains("test = false"));
    runs.filter_map(|section| {
        section
            .split("name = \"")
            .nth(1)?
            .split('"')
            .next()
            .map(str::to_owned)
    })
    .collect()
}

#[test]
fn the_script_of_the_tests_runs_every_test_program() {
    let script = read("test");
    let listed = |name: &str| {
        let line = script.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim_end_matches(')').split(' ')
    };
    let mut runs: Vec<_> = ["PROGRAMS=(", "OTHERS=(", "WITHOUT_CLOCK=("]
        .into_iter()
        .flat_map(listed)
        .map(str::to_owned)
        .collect();
    let manifests = [
        "",
        "src/controller/",
        "src/core/",
        "src/demo/",
        "src/edge/",
        "src/image/",
        "src/testbed/",
    ];
    let mut programs: Vec<_> = manifests
        .iter()
        .flat_map(|folder| test_programs(&read(&format!("{folder}Cargo.toml"))))
        .collect();
    runs.sort();
    programs.sort();
    assert_eq!(runs, programs);
}

#[test]
fn the_long_tier_names_cases_that_are_there() {
    let cases = std::fs::read_dir(root().join("e2e/cases"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let modules: BTreeSet<_> = cases
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    for line in read("e2e/tiers")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let [part, _, program, filters] = line.split('|').map(str::trim).collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let known = |filter: &str| {
            filter == "--skip" || modules.contains(filter.split("::").next().unwrap())
        };
        let runs_cases =
            ["e2e", "kind", "crio"].contains(&program) || program.starts_with("kubernetes-");
        assert!(
            !runs_cases || (!filters.is_empty() && filters.split(' ').all(known)),
            "{part}: {filters}"
        );
    }
}

/// Where a path of `e2e/tiers` matches nothing, a part of the long tier guards nothing.
#[test]
fn each_path_that_a_part_of_the_long_tier_guards_is_there() {
    let tiers = read("e2e/tiers");
    let parts = tiers.lines().filter(|line| !line.starts_with('#'));
    let paths = parts.filter_map(|line| line.split(" | ").nth(1));
    let paths: Vec<_> = paths
        .flat_map(str::split_whitespace)
        .filter(|path| !["-", "~"].contains(path))
        .collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        let files = std::process::Command::new("git")
            .args(["ls-files", path])
            .current_dir(root())
            .output();
        assert!(
            !files.unwrap().stdout.is_empty(),
            "e2e/tiers: {path} matches no file"
        );
    }
}

/// The map is the first that a reader has.
#[test]
fn every_file_that_the_map_names_is_there() {
    let mut files = Vec::new();
    let mut folders: Vec<_> = ["src", "tests", "e2e", "bench"]
        .map(|folder| root().join(folder))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    let map = read("docs/architecture.md");
    let named: Vec<_> = map
        .split('`')
        .filter(|word| word.ends_with(".rs") && !word.contains(' '))
        .collect();
    assert!(named.len() > 40, "{named:?}");
    for name in named {
        assert!(files.iter().any(|file| file.ends_with(name)), "{name}");
    }
}
