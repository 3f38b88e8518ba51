//! Annotations of swaplet that nothing reads: at the wrong object, or misspelt.

use serde_json::Value;

use super::names::nearest;
use crate::objects::pod::annotations::{DELAY, ORDER, SIDECARS, WAIT_FOR_EXIT};
use crate::objects::pod::template::Place;
use crate::objects::values::bounds::cut;

/// The prefix of all of them.
const OURS: &str = "swaplet.io/";
/// Those that are read from pods.
pub const OF_PODS: [&str; 4] = [SIDECARS, DELAY, ORDER, WAIT_FOR_EXIT];
/// Other words behind the prefix that mean something in a manifest.
const OTHERS: &str = "config finished holds hot-upgrade image-cache node-class parked pin-tags predownload readiness-gate restart-on warm-before warm-image warm-node";
/// The most wrong letters of a key whose meaning is guessed.
const WRONG: usize = 4;
/// The most wrong letters of a key that does not begin as those of swaplet.
const WRONG_PREFIX: usize = 2;
/// The most characters that are shown of a key.
const SHOWN: usize = 80;
/// The most problems that are reported of a template.
const MOST: usize = 10;

/// Returns the problems of the annotations of a template's pods, and of the object around it.
pub(super) fn problems(place: &Place<'_>) -> Vec<String> {
    let (of_object, of_pods) = (&place.object["metadata"], &place.template["metadata"]);
    let is_pod = std::ptr::eq(place.object, place.template);
    let mut around = if is_pod { Vec::new() } else { keys(of_object) };
    around.extend(keys(&place.object["spec"]["jobTemplate"]["metadata"]));
    let misplaced = around.iter().filter(|key| OF_PODS.contains(&key.as_str()));
    let path = place.path.trim_end_matches("spec");
    let misplaced = misplaced.map(|key| {
        format!("{key} is read from pods, and has no effect here: write it into {path}metadata.annotations")
    });
    let in_pods = keys(of_pods);
    let unknown = around.iter().chain(&in_pods);
    let unknown = unknown.filter_map(|key| unknown_key(key));
    let labels = of_pods["labels"].as_object().into_iter().flatten();
    let labels = labels.filter(|(key, _)| OF_PODS.contains(&key.as_str()));
    let labels = labels.map(|(key, _)| {
        format!("{key} is an annotation, and has no effect as a label: write it into {path}metadata.annotations")
    });
    misplaced.chain(unknown).chain(labels).collect()
}

/// Returns the problems of the annotations of an object without pods. A Namespace opens containers
/// to SidecarPolicies by one of them.
pub fn of_object(object: &Value) -> Vec<String> {
    let is_namespace = object["kind"] == "Namespace";
    let problem = |key: String| match &*key {
        SIDECARS if is_namespace => None,
        known if OF_PODS.contains(&known) => {
            Some(format!("{key} is read from pods, and has no effect here"))
        }
        other => unknown_key(other),
    };
    let keys = keys(&object["metadata"]).into_iter();
    keys.filter_map(problem).collect()
}

/// Returns the annotations that are swaplet's, or seem to be meant so.
fn keys(metadata: &Value) -> Vec<String> {
    let all = metadata["annotations"].as_object().into_iter().flatten();
    let ours = all.filter(|(key, _)| {
        let (wrong, _) = nearest(&OF_PODS, &cut(key, SHOWN));
        key.starts_with(OURS) || wrong <= WRONG_PREFIX || key.contains("swaplet") && wrong <= WRONG
    });
    ours.take(MOST).map(|(key, _)| key.clone()).collect()
}

/// Returns the problem of a key that means nothing in any manifest.
fn unknown_key(key: &str) -> Option<String> {
    let word = key.trim_start_matches(OURS);
    if OF_PODS.contains(&key) || OTHERS.split(' ').any(|other| other == word) {
        return None;
    }
    let key = cut(key, SHOWN);
    let (wrong, known) = nearest(&OF_PODS, &key);
    let meant = match wrong <= WRONG {
        true => format!(": is it {known}?"),
        false => String::new(),
    };
    Some(format!("the annotation {key} means nothing{meant}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn u57_annotations_that_swaplet_or_its_users_write_mean_something() {
        for key in ["config", "holds", "pin-tags", "restart-on"] {
            let object = json!({"kind": "Namespace", "metadata": {"annotations": {format!("swaplet.io/{key}"): "x"}}});
            assert_eq!(of_object(&object), Vec::<String>::new(), "{key}");
        }
    }
}
