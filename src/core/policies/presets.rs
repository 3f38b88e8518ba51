//! The presets that policies can name: data, not code (`presets.yaml`).

use std::sync::LazyLock;

use serde::Deserialize;

/// The presets as YAML; a comment in it describes the format.
pub const PRESETS: &str = include_str!("presets.yaml");

/// A set of containers that an injector adds to pods.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The name by which policies refer to it.
    pub name: String,
    /// The names of the containers.
    pub containers: Vec<String>,
    /// The source of the names.
    pub source: String,
}

// The file is part of the binary; a test checks that it can be read.
static ROWS: LazyLock<Vec<Preset>> = LazyLock::new(|| read(PRESETS).unwrap_or_default());

/// Reads presets in the format of `presets.yaml`.
///
/// # Errors
/// The problem with the YAML.
pub fn read(yaml: &str) -> Result<Vec<Preset>, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

/// Returns all presets.
pub fn all() -> &'static [Preset] {
    &ROWS
}

/// Returns the preset that names this container.
pub fn of_container(container: &str) -> Option<&'static Preset> {
    let has = |row: &&Preset| row.containers.iter().any(|name| name == container);
    ROWS.iter().find(has)
}

/// Returns the preset with this name.
pub fn named(name: &str) -> Option<&'static Preset> {
    ROWS.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_can_be_read_and_every_row_says_where_it_is_from() {
        let rows = read(PRESETS).unwrap();
        assert!(named("istio").is_some_and(|row| row.containers == ["istio-proxy"]));
        let mut seen = BTreeSet::new();
        for row in &rows {
            assert!(
                !row.containers.is_empty() && !row.source.is_empty(),
                "{row:?}"
            );
            assert!(
                row.containers
                    .iter()
                    .all(|name| of_container(name).is_some())
            );
            assert!(seen.insert(&row.name), "{} is there twice", row.name);
            for container in &row.containers {
                assert!(!container.contains('*'), "{container} is a pattern");
                assert!(
                    seen.insert(container) || *container == row.name,
                    "{container} is of two presets"
                );
            }
        }
    }

    #[test]
    fn a_table_with_a_field_that_means_nothing_is_refused() {
        let error = read("- name: x\n  container: [y]\n  source: s\n").unwrap_err();
        assert!(error.contains("container"), "{error}");
    }
}
