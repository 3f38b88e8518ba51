//! The table of docs/measured.md on the node of this cluster: what a kubelet and its runtime make of
//! images and phases that somebody writes by hand. No controller of swaplet runs.
//!
//! The results must be those that `e2e/measured` has of this version and runtime. Where they are
//! new, or differ for a good reason, `SWAPLET_UPDATE_DOCS=1` has the case write the file; the same
//! with `cargo test --test docs` puts it into the document.

mod lab;
mod rows;

mod long {
    use std::collections::BTreeMap;
    use std::path::Path;

    use futures::StreamExt as _;
    use k8s_openapi::api::core::v1::Node;
    use kube::Api;
    use serde_json::{Value, json};

    use super::lab::Lab;
    use super::rows;
    use crate::world::variable;

    /// Rows that are measured at the same time. More would only wait for processors.
    const AT_ONCE: usize = 6;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_table_is_as_it_was_recorded() {
        let lab = Lab::new().await;
        let rows = futures::stream::iter(rows::all(&lab)).map(|(number, row)| async move {
            let result = row.await;
            println!("row {number}: {result}");
            (number, result)
        });
        let mut results: BTreeMap<u32, String> = rows.buffer_unordered(AT_ONCE).collect().await;
        // The kubelet is needed by all others.
        results.extend(rows::with_a_dead_kubelet(&lab).await);
        let node = node_info(&lab).await;
        lab.done().await;
        assert_recorded(&node, &results);
    }

    /// What the node says it is. Which cgroups its kubelet has is told by those of the machine, of
    /// which the node is a part.
    async fn node_info(lab: &Lab) -> Value {
        let nodes: Api<Node> = Api::all(lab.world.client.clone());
        let node = nodes.get(&variable("SWAPLET_E2E_NODE")).await.unwrap();
        let info = node.status.unwrap().node_info.unwrap();
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        json!({
            "kubelet": info.kubelet_version, "runtime": info.container_runtime_version,
            "cgroups": if unified { "v2" } else { "v1" },
        })
    }

    fn assert_recorded(node: &Value, results: &BTreeMap<u32, String>) {
        let name = |field: &str, parts: usize, separator: char| {
            let words = node[field].as_str().unwrap().split(separator);
            words.take(parts).collect::<Vec<_>>().join(".")
        };
        let version = name("kubelet", 2, '.');
        let file = format!(
            "{}/e2e/measured/{}-{}.json",
            env!("CARGO_MANIFEST_DIR"),
            version.trim_start_matches('v'),
            name("runtime", 1, ':')
        );
        let mut measured = node.clone();
        measured["results"] = json!(results);
        if std::env::var_os("SWAPLET_UPDATE_DOCS").is_some() {
            let text = serde_json::to_string_pretty(&measured).unwrap();
            std::fs::write(&file, text + "\n").unwrap();
        }
        let recorded = std::fs::read_to_string(&file).unwrap_or_else(|error| {
            panic!("{file}: {error}; SWAPLET_UPDATE_DOCS=1 records it: {measured:#}")
        });
        let recorded: Value = serde_json::from_str(&recorded).unwrap();
        let differ = rows::differing(&recorded["results"], results);
        assert!(
            differ.is_empty(),
            "{file} says something else of {node}: {differ:#?}"
        );
    }
}
