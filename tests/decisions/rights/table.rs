//! The tables of `docs/rights.md`, and the roles of `deploy/`.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Role, group, resource, verb, name.
pub type Right = [String; 5];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Role and ClusterRole of `deploy/`, with the manifest. What the Helm chart renders,
/// `swaplet.yaml`, is made of the others.
pub fn of_manifests() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(root().join("deploy"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_manifest = |file: &PathBuf| {
        file.extension()
            .is_some_and(|extension| extension == "yaml")
            && !file.ends_with("swaplet.yaml")
    };
    let manifests = files.filter(is_manifest);
    let documents = manifests.flat_map(|file| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        objects
            .into_iter()
            .map(move |object| (name.clone(), object))
    });
    documents
        .filter(|(_, object)| {
            object["kind"]
                .as_str()
                .is_some_and(|kind| kind.ends_with("Role"))
        })
        .collect()
}

/// Its kind and its name.
pub fn heading(role: &Value) -> String {
    format!(
        "{} {}",
        role["kind"].as_str().unwrap(),
        role["metadata"]["name"].as_str().unwrap()
    )
}

fn words(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

/// Every combination.
fn rights(
    role: &str,
    groups: &[String],
    resources: &[String],
    verbs: &[String],
    names: &[String],
) -> Vec<Right> {
    let mut all = Vec::new();
    for group in groups {
        for resource in resources {
            for verb in verbs {
                for name in names {
                    all.push([role, group, resource, verb, name].map(str::to_owned));
                }
            }
        }
    }
    all
}

/// What it gives.
pub fn given(role: &Value) -> Vec<Right> {
    let rule = |rule: &Value| {
        let or_any = |list: Vec<String>| {
            if list.is_empty() {
                vec![String::new()]
            } else {
                list
            }
        };
        let unknown: Vec<_> = rule
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| {
                !["apiGroups", "resources", "verbs", "resourceNames"].contains(&key.as_str())
            })
            .collect();
        assert!(unknown.is_empty(), "{role}: a rule with {unknown:?}");
        rights(
            &heading(role),
            &words(&rule["apiGroups"]),
            &words(&rule["resources"]),
            &words(&rule["verbs"]),
            &or_any(words(&rule["resourceNames"])),
        )
    };
    role["rules"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(rule)
        .collect()
}

/// The modes of installation: the roles of the namespaces of pods, of the cluster, and of one
/// namespace.
pub fn modes() -> Vec<[Vec<String>; 3]> {
    let text = document();
    let (_, modes) = text.split_once("## Modes").unwrap();
    let rows = modes
        .split("\n## ")
        .next()
        .unwrap()
        .lines()
        .filter_map(cells);
    let roles = |cell: &str| {
        cell.split(", ")
            .filter(|role| !role.is_empty())
            .map(str::to_owned)
            .collect()
    };
    rows.map(|row| [roles(&row[1]), roles(&row[2]), roles(&row[3])])
        .collect()
}

/// `docs/rights.md`
pub fn document() -> String {
    std::fs::read_to_string(root().join("docs/rights.md")).unwrap()
}

/// The cells of a row of a table; nothing of other lines, heads and rulers.
fn cells(line: &str) -> Option<Vec<String>> {
    let cells: Vec<_> = line
        .strip_prefix('|')?
        .strip_suffix('|')?
        .split('|')
        .map(|cell| cell.trim().to_owned())
        .collect();
    (!["group", "mode", "---"].contains(&cells[0].as_str())).then_some(cells)
}

/// What the tables say.
pub fn explained() -> Vec<Right> {
    let text = document();
    let (mut role, mut all) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            role = heading.to_owned();
        }
        let Some(row) = cells(line).filter(|_| role.contains("Role ")) else {
            continue;
        };
        let [group, resources, verbs, names, why, without] = row.as_slice() else {
            panic!("{line}: six columns")
        };
        assert!(
            !why.is_empty() && !without.is_empty(),
            "{line}: why, and what happens without it"
        );
        let list = |cell: &String| cell.split(", ").map(str::to_owned).collect::<Vec<_>>();
        let group = if group == "core" {
            String::new()
        } else {
            group.clone()
        };
        all.extend(rights(
            &role,
            &[group],
            &list(resources),
            &list(verbs),
            &list(names),
        ));
    }
    all
}
