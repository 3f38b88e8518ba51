//! A pod that requests restarts by [`RESTART_ON`](super::annotation::RESTART_ON), with the way in
//! which its containers use the objects that it names.

mod wire;

use std::collections::BTreeMap;

use super::annotation::{Problem, Reference, RestartOn, Source};
use super::content::Content;
pub use wire::ConfiguredPodWire;

/// A pod with the annotation, reduced to what restarts after a configuration change need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredPod {
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
    /// The uid of the controlling owner; `None` if there is none.
    pub owner: Option<Box<str>>,
    /// `spec.nodeName`; empty until the pod is scheduled.
    pub node: Box<str>,
    /// True if the pod is being deleted or has finished: none of its containers is restarted any
    /// more.
    pub ending: bool,
    /// True if the condition Ready is `True`.
    pub ready: bool,
    /// The parsed annotation, or the problem with it.
    pub wish: Result<RestartOn, Problem>,
    /// How a container uses an object, in its environment or volumes; no entry if it uses it in
    /// another way.
    pub uses: BTreeMap<(Box<str>, Reference), Use>,
    /// The labels and annotations that a container's environment takes, for the containers that are
    /// restarted for them.
    pub metadata: BTreeMap<Box<str>, Content>,
    /// The stage of each container in the status.
    pub lives: BTreeMap<Box<str>, Life>,
}

/// How a container uses an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// True if it is mounted as files of a volume, which the node updates some time after a change.
    pub mounted: bool,
    /// True if the container cannot be started without it.
    pub required: bool,
}

/// The stage of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The container has never been started.
    Unstarted,
    /// The container runs, or is about to be started again.
    Alive,
    /// The container has ended, for now or for good.
    Ended,
}

impl ConfiguredPod {
    /// Returns how a container uses a source of its configuration.
    #[must_use]
    pub fn usage(&self, container: &str, source: &Source) -> Use {
        match source {
            Source::Object(reference) => self
                .uses
                .get(&(container.into(), reference.clone()))
                .copied()
                .unwrap_or_default(),
            Source::PodMetadata => Use::default(),
        }
    }

    /// Returns the stage of a container; unstarted if the node has not reported it.
    #[must_use]
    pub fn life(&self, container: &str) -> Life {
        self.lives
            .get(container)
            .copied()
            .unwrap_or(Life::Unstarted)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::restart::on_config::annotation::RESTART_ON;

    fn read(pod: Value) -> Option<ConfiguredPod> {
        serde_json::from_value::<ConfiguredPodWire>(pod)
            .unwrap()
            .read()
    }

    fn source(text: &str) -> Source {
        Source::read(text).unwrap()
    }

    #[test]
    fn how_containers_use_objects_is_read_from_environments_and_volumes() {
        let pod = read(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "web"}, "annotations": {RESTART_ON: "app=configmap/a"},
                "ownerReferences": [{"uid": "no"}, {"uid": "rs", "controller": true}]},
            "spec": {"nodeName": "n", "containers": [
                {"name": "app", "volumeMounts": [{"name": "files"}, {"name": "all"}],
                    "env": [{"name": "A", "value": "a"}, {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}],
                    "envFrom": [{"secretRef": {"name": "s", "optional": true}}]},
                {"name": "log"},
            ], "volumes": [
                {"name": "files", "configMap": {"name": "b", "optional": true}}, {"name": "unused", "configMap": {"name": "c"}},
                {"name": "all", "projected": {"sources": [{"configMap": {"name": "a"}}, {"secret": {"name": "s"}}]}},
            ]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                {"name": "app", "state": {"running": {}}}, {"name": "log", "state": {"waiting": {}}},
            ]},
        }))
        .unwrap();
        let usage = |text: &str| pod.usage("app", &source(text));
        assert_eq!(
            usage("configmap/a"),
            Use {
                mounted: true,
                required: true
            }
        );
        assert_eq!(
            usage("configmap/b"),
            Use {
                mounted: true,
                required: false
            }
        );
        assert_eq!(
            usage("secret-metadata/s"),
            Use {
                mounted: true,
                required: true
            }
        );
        assert_eq!(
            (
                usage("configmap/c"),
                pod.usage("log", &source("configmap/a"))
            ),
            (Use::default(), Use::default())
        );
        assert_eq!(
            (
                pod.owner.as_deref(),
                pod.ready,
                pod.ending,
                pod.labels["app"].as_str()
            ),
            (Some("rs"), true, false, "web")
        );
        assert_eq!(
            (pod.life("app"), pod.life("log"), pod.life("other")),
            (Life::Alive, Life::Unstarted, Life::Unstarted)
        );
    }

    fn taking(annotation: &str, paths: &[&str], labels: Value, color: &str) -> ConfiguredPod {
        let env = paths
            .iter()
            .map(|path| json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}));
        read(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": labels,
                "annotations": {RESTART_ON: annotation, "example.com/color": color, "swaplet.io/parked": color}},
            "spec": {"containers": [{"name": "app", "env": env.collect::<Vec<_>>()}, {"name": "log"}]},
        }))
        .unwrap()
    }

    #[test]
    fn what_an_environment_takes_of_the_metadata_is_content() {
        const PATHS: &[&str] = &[
            "metadata.labels['tier']",
            "metadata.annotations['example.com/color']",
            "metadata.name",
        ];
        let content = |labels: Value, color: &str| {
            let pod = taking("app=pod-metadata", PATHS, labels, color);
            assert!(pod.wish.is_ok() && pod.uses.is_empty(), "{:?}", pod.wish);
            pod.metadata["app"].clone()
        };
        let first = content(json!({"tier": "a"}), "red");
        assert_eq!(first, content(json!({"tier": "a", "other": "x"}), "red"));
        assert_ne!(first, content(json!({"tier": "b"}), "red"));
        assert_ne!(first, content(json!({"tier": "a"}), "blue"));
        // The kubelet gives an empty text for a label that is not there.
        assert_eq!(
            content(json!({}), "red"),
            content(json!({"tier": ""}), "red")
        );
        let unasked = taking("app=configmap/a", PATHS, json!({}), "red");
        assert!(unasked.wish.is_ok() && unasked.metadata.is_empty());
    }

    #[test]
    fn metadata_that_no_environment_takes_is_told() {
        for paths in [
            &[][..],
            &["metadata.name", "metadata.labels"],
            // What swaplet itself writes would restart the container for ever.
            &["metadata.annotations['swaplet.io/parked']"],
            &["metadata.labels['", "metadata.labels['']", "status.hostIP"],
        ] {
            let pod = taking("app=pod-metadata", paths, json!({}), "red");
            assert_eq!(
                pod.wish,
                Err(Problem::NoMetadata("app".into())),
                "{paths:?}"
            );
        }
        let pod = taking("log=pod-metadata", &["metadata.labels['a']"], json!({}), "");
        assert_eq!(pod.wish, Err(Problem::NoMetadata("log".into())));
    }

    #[test]
    fn a_pod_that_asks_for_nothing_is_not_kept() {
        assert_eq!(
            read(
                json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {"other": "x"}}})
            ),
            None
        );
    }

    #[test]
    fn a_crash_loop_is_alive_and_an_end_is_an_end() {
        let lives = |status: Value| {
            let pod = read(
                json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {RESTART_ON: ""}},
                "status": {"containerStatuses": [status]}}),
            );
            pod.unwrap().life("app")
        };
        assert_eq!(
            lives(
                json!({"name": "app", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}})
            ),
            Life::Alive
        );
        assert_eq!(
            lives(
                json!({"name": "app", "state": {"waiting": {}}, "lastState": {"terminated": {}}})
            ),
            Life::Alive
        );
        assert_eq!(
            lives(json!({"name": "app", "restartCount": 3, "state": {"terminated": {}}})),
            Life::Ended
        );
    }

    #[test]
    fn what_has_a_wrong_type_is_absent() {
        for strange in [
            json!(1),
            json!("x"),
            json!([1]),
            json!(null),
            json!({}),
            json!([{"name": 1}]),
        ] {
            let pod = read(json!({
                "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": strange, "ownerReferences": strange,
                    "annotations": {RESTART_ON: "app=configmap/a"}},
                "spec": {"volumes": strange, "containers": [{"name": "app", "env": strange, "envFrom": strange, "volumeMounts": strange}]},
                "status": {"conditions": strange, "containerStatuses": strange, "phase": strange},
            }));
            assert!(
                pod.is_some_and(|pod| pod.wish.is_ok() && pod.uses.is_empty() && !pod.ready),
                "{strange}"
            );
        }
    }
}
