//! The rooms of the house are crates: which may depend on which stands in `docs/architecture.md`, and in their manifests.

use std::collections::BTreeSet;

use crate::markdown::root;

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// What the table of the map says: the folder of each room, and the rooms that it may depend on.
fn rooms(map: &str) -> Vec<(String, BTreeSet<String>)> {
    let rows = map.lines().filter(|line| line.starts_with("| `src/"));
    let cells = rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>());
    let room = |cells: Vec<&str>| {
        let folder = cells[0].trim_matches(['`', '/', ' ']).to_owned();
        let may = cells[3].split(", ").filter(|room| *room != "no other room").map(str::to_owned).collect();
        (if folder == "src/cli" { String::new() } else { folder + "/" }, may)
    };
    cells.map(room).collect()
}

/// The names of the dependencies of a crate, those of its tests left out.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]\n")).unwrap();
    section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn each_room_depends_on_what_the_map_allows_and_core_on_nothing_that_waits() {
    let rooms = rooms(&read("docs/architecture.md"));
    assert_eq!(rooms.len(), 7);
    for (folder, may) in rooms {
        let all = dependencies(&read(&format!("{folder}Cargo.toml")));
        let does: BTreeSet<_> = all.iter().filter_map(|name| name.strip_prefix("swaplet-")).map(str::to_owned).collect();
        assert_eq!(does, may, "{folder}");
        let waits = ["kube", "kube-client", "tokio", "futures", "hyper", "reqwest", "oci-distribution"];
        assert!(folder != "src/core/" || waits.iter().all(|name| !all.contains(*name)), "{all:?}");
    }
}
