//! The README of the chart and the descriptions in its schema say of each value what
//! `deploy/chart/values.yaml` says of it. After a change: `SWAPLET_UPDATE_DOCS=1 cargo test --test
//! docs`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::markdown::root;

const HEAD: &str = "# The Helm chart of swaplet\n\n\
    ```sh\n\
    helm install swaplet deploy/chart --namespace swaplet --create-namespace \\\n  \
    --set image=IMAGE,terminate.exitImage=EXIT_IMAGE\n\
    helm test swaplet --namespace swaplet          # with parkImage: a Job whose sidecar never ends by itself\n\
    ```\n\n\
    Set `image`, and `terminate.exitImage` unless `terminate.prefer` is `finish`. To push the images, and for the needs of each platform,\n\
    see [docs/install](../../docs/install/README.md). [docs/rights.md](../../docs/rights.md) explains each right. An image is a string, or\n\
    `repository`, `tag` and `digest`. A key that is not in this table is an error.\n\n\
    | value | default | what it is for |\n|---|---|---|\n";

/// A key of the values with its default, as it is written, and the comment before it.
struct Entry {
    path: Vec<String>,
    default: String,
    words: String,
}

/// The values of the file, in its order. A comment is about the key that follows it.
fn entries(values: &str) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let (mut open, mut words): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    for line in values.lines().skip_while(|line| !line.is_empty()) {
        let text = line.trim_start();
        if let Some(comment) = text.strip_prefix("# ") {
            words.push(comment);
            continue;
        }
        let Some((key, default)) = text.split_once(':').filter(|_| !text.starts_with('-')) else {
            if text.starts_with('-') && !found.is_empty() {
                let last = found.len() - 1;
                found[last].default = text.to_owned();
            }
            continue;
        };
        open.truncate((line.len() - text.len()) / 2);
        open.push(key.to_owned());
        found.push(Entry {
            path: open.clone(),
            default: default.trim().to_owned(),
            words: words.join(" "),
        });
        words.clear();
    }
    found
}

/// `None` where a value takes whatever Kubernetes takes there, as resources do.
fn schema_of<'a>(schema: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    let Some((key, rest)) = path.split_first() else {
        return Some(schema);
    };
    let properties = schema.get_mut("properties")?.as_object_mut()?;
    let place = properties
        .get_mut(key)
        .unwrap_or_else(|| panic!("{key} is not in the schema"));
    schema_of(place, rest)
}

fn agrees(file: &str, wanted: &str) {
    let path = root().join(file);
    if std::env::var_os("SWAPLET_UPDATE_DOCS").is_some() {
        std::fs::write(&path, wanted).unwrap();
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        is == wanted,
        "{file} is not up to date: SWAPLET_UPDATE_DOCS=1 cargo test --test docs"
    );
}

#[test]
fn the_readme_of_the_chart_and_its_schema_say_what_the_values_say() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let entries = entries(&read("deploy/chart/values.yaml"));
    assert!(entries.len() > 80, "{}", entries.len());
    let mut schema: Value = serde_json::from_str(&read("deploy/chart/values.schema.json")).unwrap();
    let mut readme = HEAD.to_owned();
    for entry in &entries {
        let place = schema_of(&mut schema, &entry.path);
        if let Some(place) = place.filter(|_| !entry.words.is_empty()) {
            place["description"] = entry.words.clone().into();
        }
        // What has members is told with them.
        if entry.default.is_empty() && entry.words.is_empty() {
            continue;
        }
        let default = match entry.default.as_str() {
            "" => String::new(),
            default => format!("`{}`", default.replace('|', "\\|")),
        };
        writeln!(
            readme,
            "| `{}` | {default} | {} |",
            entry.path.join("."),
            entry.words.replace('|', "\\|")
        )
        .unwrap();
    }
    let pretty = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    agrees("deploy/chart/values.schema.json", &pretty);
    agrees("deploy/chart/README.md", &readme);
}

/// Whether the schema has this value; below what Kubernetes describes anything may be.
fn has_value(schema: &Value, path: &[&str]) -> bool {
    let Some((key, rest)) = path.split_first() else {
        return true;
    };
    match schema["properties"].get(key) {
        Some(value) => has_value(value, rest),
        None => schema["additionalProperties"] != false,
    }
}

/// In code, as `restart.enabled`, and behind `--set`.
#[test]
fn u64_each_value_that_the_documents_name_is_one_of_the_chart() {
    let read = |file: &std::path::Path| std::fs::read_to_string(file).unwrap();
    let schema: Value =
        serde_json::from_str(&read(&root().join("deploy/chart/values.schema.json"))).unwrap();
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric());
    let mut files = Vec::new();
    crate::markdown::collect(&root().join("docs"), ".md", &mut files);
    let (mut known, mut unknown) = (0, Vec::new());
    for file in &files {
        let text = read(file);
        let spans = text.split('`').skip(1).step_by(2);
        let set = text.split("--set ").skip(1).flat_map(|rest| {
            let word = rest.trim_start_matches('\'').split_whitespace().next();
            word.unwrap_or_default().split(',')
        });
        for written in spans.chain(set) {
            let path: Vec<_> = written
                .split('=')
                .next()
                .unwrap_or_default()
                .split('.')
                .collect();
            let is_of_chart = schema["properties"][path[0]]["properties"].is_object();
            let is_file = matches!(path.last(), Some(&("rs" | "yaml")));
            if path.len() < 2 || is_file || !is_of_chart || !path.iter().all(|part| is_name(part)) {
                continue;
            }
            match has_value(&schema, &path) {
                true => known += 1,
                false => unknown.push(format!("{}: {written}", file.display())),
            }
        }
    }
    assert!(known > 30, "{known}");
    assert_eq!(unknown, Vec::<String>::new());
}
