//! Pods with sidecars that nobody has marked: an annotation of the pod, one of its namespace, or
//! the list of the administrator names them.

use serde_json::{Value, json};

use super::Leashed;
use super::pods::{main, pod};
use crate::world::kubectl;

/// What stands for the list of the administrator.
pub const LISTED: &str = "injected-*";

/// The annotation of pods and namespaces.
const SIDECARS: &str = "swaplet.io/sidecars";

impl Leashed {
    /// Each has a main container and one that is not marked.
    pub async fn opted_in_pods_are_there(&self) {
        let namespace = &self.world.namespace;
        let annotation = format!("{SIDECARS}=team-*, exact");
        kubectl(&["annotate", "namespace", namespace, &annotation]).await;
        let pods = [
            ("annotated", "agent", Some("other, agent"), Some(0)),
            ("annotated-running", "agent", Some("agent"), None),
            ("annotated-all", "agent", Some("agent,main"), Some(0)),
            // A pattern is no name.
            ("annotated-pattern", "agent", Some("age*,*,.*"), Some(0)),
            ("listed", "injected-proxy", None, Some(0)),
            ("listed-running", "injected-proxy", None, None),
            ("listed-like", "not-injected-proxy", None, Some(0)),
            ("of-namespace", "team-log", None, Some(0)),
            ("of-namespace-running", "team-log", None, None),
            ("of-namespace-like", "exact-not", None, Some(0)),
        ];
        for (name, side, annotation, code) in pods {
            let unmarked = json!({"name": side, "image": self.world.images.work});
            let mut made = pod(self, name, "OnFailure", json!([main(self), unmarked]));
            if let Some(annotation) = annotation {
                made["metadata"]["annotations"][SIDECARS] = Value::from(annotation);
            }
            self.is_there(made, &[("main", code), (side, None)], &[])
                .await;
        }
    }
}
