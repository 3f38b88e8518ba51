//! In which pods sidecars are upgraded, and what a `SidecarSet` says.

use serde_json::{Value, json};
use swaplet_core::image::pattern::ImagePattern;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::amount::Amount;
use swaplet_core::restart::hot_upgrade::pod::{UpgradePod, UpgradePodWire};
use swaplet_core::restart::hot_upgrade::rollout::{Member, PodMemory, plan};
use swaplet_core::restart::hot_upgrade::sidecar_set::{UpdateStrategy, UpgradeImages};

use super::node::{
    NEW, Node, PARK, RECORD, alone, images, member, planned, set, set_of, spec, write,
};
use crate::expect::moment;

#[test]
fn as_many_pods_as_the_set_allows_and_a_partition_stays() {
    let count = |update: Value, pods: usize, unready: usize| {
        let mut spec = spec(NEW);
        spec["updateStrategy"] = update;
        let mut nodes: Vec<_> = (0..pods)
            .map(|nth| Node::new(&format!("p{nth:02}")))
            .collect();
        for node in nodes.iter_mut().take(unready) {
            node.object["status"]["conditions"] = json!([]);
        }
        let mut memories = vec![PodMemory::new(); pods];
        planned(&set_of(&spec), &nodes, &mut memories, 0)
            .writes
            .len()
    };
    assert_eq!(count(json!({}), 10, 0), 1);
    assert_eq!(count(json!({"maxUnavailable": 3}), 10, 0), 3);
    assert_eq!(count(json!({"maxUnavailable": "25%"}), 10, 0), 3);
    assert_eq!(
        count(json!({"maxUnavailable": "100%", "partition": 4}), 10, 0),
        6
    );
    assert_eq!(
        count(json!({"maxUnavailable": "100%", "partition": "95%"}), 10, 0),
        1
    );
    assert_eq!(
        count(
            json!({"maxUnavailable": "100%", "partition": "100%"}),
            10,
            0
        ),
        0
    );
    assert_eq!(count(json!({"paused": true}), 10, 0), 0);
    assert_eq!(count(json!({"type": "NotUpdate"}), 10, 0), 0);
    // Those that are not ready have nothing to lose.
    assert_eq!(count(json!({}), 10, 4), 5);
    assert_eq!(
        count(
            json!({"selector": {"matchLabels": {"canary": "true"}}}),
            10,
            0
        ),
        1,
        "of the default selector of these tests"
    );
}

/// Who may change pods of a namespace keeps no other one waiting, whatever they do to them.
#[test]
fn a_namespace_stops_itself_alone() {
    let set = set();
    let mut nodes = [Node::new("a"), Node::new("b"), Node::new("c")];
    for (node, namespace) in nodes.iter_mut().zip(["evil", "evil", "shop"]) {
        node.object["metadata"]["namespace"] = json!(namespace);
    }
    let begun = |nodes: &[Node]| {
        let mut memories = vec![PodMemory::new(); nodes.len()];
        let plan = planned(&set, nodes, &mut memories, 0);
        plan.writes.iter().map(|(nth, _)| *nth).collect::<Vec<_>>()
    };
    assert_eq!(begun(&nodes), [0]);
    // Somebody has written that the image was taken back.
    let failed = json!({"mesh": {"image": NEW, "run": "", "failed": set.generation}});
    let mut forged = nodes.clone();
    forged[0].object["metadata"]["annotations"]["swaplet.io/hot-upgrade"] =
        json!(failed.to_string());
    assert_eq!(begun(&forged), [2]);
    // One is updated, and its owner keeps it from being ready.
    let mut unready = nodes.clone();
    unready[0].object["spec"]["containers"][1]["image"] = json!(NEW);
    unready[0].object["status"]["conditions"] = json!([]);
    assert_eq!(begun(&unready), [2]);
    // What is of no container of the pod is not kept.
    let much: serde_json::Map<_, _> = (0..1000)
        .map(|n| (format!("x{n}"), json!("y".repeat(100))))
        .collect();
    let node = &mut nodes[0].object["metadata"]["annotations"];
    node["kruise.io/sidecarset-working-hotupgrade-container"] = json!(json!(much).to_string());
    let entries: serde_json::Map<_, _> = (0..1000)
        .map(|n| (format!("x{n}"), json!({"image": "y"})))
        .collect();
    node["swaplet.io/hot-upgrade"] = json!(json!(entries).to_string());
    let pod = nodes[0].pod();
    assert_eq!((pod.working.len(), pod.record.0.len()), (0, 0));
    assert_eq!(begun(&nodes), [0]);
}

/// The pod of another namespace, and what its owner makes of it.
#[test]
fn a_pod_that_seems_to_be_upgraded_keeps_other_namespaces_waiting_for_so_long() {
    let set = set();
    let mut nodes = [Node::new("a"), Node::new("b")];
    nodes[0].object["metadata"]["namespace"] = json!("evil");
    let mut memories = vec![PodMemory::new(); 2];
    let begun = planned(&set, &nodes, &mut memories, 0);
    assert_eq!(begun.writes[0].0, 0);
    nodes[0].takes(write(&begun));
    nodes[0].object["metadata"]["labels"]["swaplet.io/parked"] = json!("true");
    assert!(planned(&set, &nodes, &mut memories, 1).writes.is_empty());
    for now in [300, 600, 660] {
        let record = json!({"mesh": {"image": NEW, "run": format!("another {now}")}});
        nodes[0].object["metadata"]["annotations"][RECORD] = json!(record.to_string());
        let waits = planned(&set, &nodes, &mut memories, now);
        assert_eq!((waits.writes.len(), waits.due), (0, Some(moment(661))));
    }
    assert_eq!(planned(&set, &nodes, &mut memories, 661).writes[0].0, 1);
    // It rests, and seems to be upgraded once more.
    for (now, image) in [(662, PARK), (663, NEW)] {
        nodes[0].object["spec"]["containers"][2]["image"] = json!(image);
        assert_eq!(planned(&set, &nodes, &mut memories, now).writes[0].0, 1);
    }
}

#[test]
fn a_pod_that_is_not_known_to_be_upgraded_keeps_no_other_namespace_waiting() {
    fn begun(pods: &[UpgradePod], change: impl Fn(&mut Member<'_>)) -> Vec<usize> {
        let set = set();
        let mut memories = vec![PodMemory::new(); pods.len()];
        let members = pods.iter().zip(&mut memories);
        let mut members: Vec<_> = members.map(|(pod, memory)| member(pod, memory)).collect();
        change(&mut members[0]);
        let plan = plan(&set, &images(), &mut members, Moment::START);
        plan.writes.iter().map(|(nth, _)| *nth).collect()
    }
    let mut node = Node::new("a");
    node.object["metadata"]["namespace"] = json!("evil");
    let mut pods = [node.pod(), Node::new("b").pod()];
    assert_eq!(begun(&pods, |_| {}), [0]);
    assert!(begun(&pods, |member| member.is_busy = true).is_empty());
    let refused = begun(&pods, |member| {
        member.is_busy = true;
        member.is_refused = true;
    });
    assert_eq!(refused, [1]);
    pods[0].is_parked = true;
    assert_eq!(begun(&pods, |_| {}), [1]);

    node.takes(write(&alone(&set(), &node, &mut PodMemory::new(), 0)));
    pods[0] = node.pod();
    assert!(begun(&pods, |_| {}).is_empty());
    assert_eq!(begun(&pods, |member| member.is_foreign = true), [1]);
}

#[test]
fn one_upgrade_at_a_time_until_all_pods_have_the_new_image() {
    let set = set();
    let mut nodes: Vec<_> = (0..4).map(|nth| Node::new(&format!("p{nth}"))).collect();
    let mut memories = vec![PodMemory::new(); 4];
    for round in 0..4 {
        let now = round * 10;
        let begun = planned(&set, &nodes, &mut memories, now);
        let (nth, change) = (begun.writes[0].0, write(&begun).clone());
        nodes[nth].takes(&change);
        assert!(
            planned(&set, &nodes, &mut memories, now).writes.is_empty(),
            "the budget is used"
        );
        nodes[nth].starts(2);
        assert!(
            planned(&set, &nodes, &mut memories, now + 1)
                .writes
                .is_empty()
        );
        let ended = planned(&set, &nodes, &mut memories, now + 5);
        nodes[nth].takes(&write(&ended).clone());
        nodes[nth].starts(1);
        // Its record goes, and the next pod begins.
        let goes = planned(&set, &nodes, &mut memories, now + 5).writes;
        let (_, change) = goes.iter().find(|(of, _)| *of == nth).unwrap();
        nodes[nth].takes(change);
    }
    let over = planned(&set, &nodes, &mut memories, 100);
    assert_eq!((over.writes.len(), over.counts.updated_ready), (0, 4));
}

#[test]
fn pods_that_are_no_matter() {
    let silent = |change: &dyn Fn(&mut Value)| {
        let mut node = Node::new("a");
        change(&mut node.object);
        let plan = alone(&set(), &node, &mut PodMemory::new(), 0);
        assert!(
            plan.writes.is_empty() && plan.reports.is_empty(),
            "{plan:?}"
        );
    };
    silent(&|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    silent(&|pod| pod["status"]["phase"] = json!("Succeeded"));
    silent(&|pod| pod["spec"]["restartPolicy"] = json!("OnFailure"));
    silent(&|pod| pod["metadata"]["annotations"]["swaplet.io/parked"] = json!("{}"));
    silent(&|pod| pod["metadata"]["labels"]["swaplet.io/parked"] = json!("true"));
    silent(&|pod| pod["spec"]["containers"][2]["name"] = json!("mesh-3"));
    let lone = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [{"name": "app", "image": "a"}]}});
    let lone: UpgradePodWire = serde_json::from_value(lone).unwrap();
    assert!(lone.read().is_none());

    let (set, node) = (set(), Node::new("a"));
    let pod = node.pod();
    for (is_busy, taken) in [(true, vec![]), (false, vec!["mesh".into()])] {
        let mut memory = PodMemory::new();
        let member = Member {
            pod: &pod,
            memory: &mut memory,
            is_busy,
            is_refused: false,
            is_foreign: false,
            taken,
        };
        assert!(
            plan(&set, &images(), &mut [member], Moment::START)
                .writes
                .is_empty()
        );
    }
}

/// A set that was written before the park image was replaced: what it names was never on the list.
#[test]
fn u83_of_the_empty_images_of_a_set_the_park_image_itself_is_written() {
    let mut old = spec(NEW);
    old["containers"][0]["upgradeStrategy"]["hotUpgradeEmptyImage"] = json!("r.example/park:0");
    let set = set_of(&old);
    assert_eq!(&*set.containers[0].empty, PARK);
}

#[test]
fn what_a_set_says_is_read_or_told() {
    let said = |spec: Value| set_of(&spec).problems.join("; ");
    assert_eq!(said(spec(NEW)), "");
    let with = |field: &str, value: Value| {
        let mut spec = spec(NEW);
        spec[field] = value;
        spec
    };
    let container = |change: Value| {
        let mut spec = spec(NEW);
        for (key, value) in change.as_object().unwrap() {
            spec["containers"][0][key] = value.clone();
        }
        set_of(&spec)
    };
    for (problem, spec) in [
        (
            "spec.selector: it selects every pod",
            with("selector", json!({})),
        ),
        (
            "spec.selector: it is not a label selector",
            with("selector", json!({"matchLabels": 3})),
        ),
        (
            "select them by the label kubernetes.io/metadata.name",
            with("namespaceSelector", json!({"matchLabels": {"team": "a"}})),
        ),
        (
            "spec.namespace is not a string",
            with("namespace", json!(3)),
        ),
        (
            "write a list of at most 32 containers",
            with("containers", json!({})),
        ),
        (
            "partition is neither a number of pods nor a percentage",
            with("updateStrategy", json!({"partition": -1})),
        ),
        (
            "partition is neither a number of pods nor a percentage",
            with("updateStrategy", json!({"partition": "101%"})),
        ),
        (
            "with this maxUnavailable nothing is upgraded",
            with("updateStrategy", json!({"maxUnavailable": 0})),
        ),
        (
            "type is not known",
            with("updateStrategy", json!({"type": "Recreate"})),
        ),
    ] {
        let set = set_of(&spec);
        assert!(
            set.problems.join("; ").contains(problem),
            "{:?}",
            set.problems
        );
        let silent = alone(&set, &Node::new("a"), &mut PodMemory::new(), 0);
        assert!(set.pods.is_none() || silent.writes.is_empty(), "{problem}");
    }
    for (problem, change) in [
        (
            "is not on the list of --hot-upgrade-images",
            json!({"image": "evil.example/a:1"}),
        ),
        ("image: ", json!({"image": "A B"})),
        (
            "upgradeType is HotUpgrade",
            json!({"upgradeStrategy": {"upgradeType": "ColdUpgrade"}}),
        ),
        (
            "has to be the park image",
            json!({"upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "busybox"}}),
        ),
        ("name is not a container name", json!({"name": "Mesh"})),
    ] {
        let set = container(change);
        assert!(
            set.problems.join("; ").contains(problem),
            "{problem}: {:?}",
            set.problems
        );
        assert!(set.containers.is_empty());
    }
    let other = container(
        json!({"upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "r.example/pause:9"}}),
    );
    assert_eq!(
        (other.problems.len(), &*other.containers[0].empty),
        (0, "r.example/pause:9")
    );
    let placed = set_of(&with(
        "namespaceSelector",
        json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]}),
    ));
    assert_eq!(
        ["a", "b", "c"].map(|name| placed.has_namespace(name)),
        [true, true, false]
    );
    let named = set_of(&with("namespace", json!("a")));
    assert_eq!(
        ["a", "b"].map(|name| named.has_namespace(name)),
        [true, false]
    );
    let kept = |percent| {
        UpdateStrategy {
            partition: Amount::Percent(percent),
            ..UpdateStrategy::default()
        }
        .kept(3)
    };
    assert_eq!([50, 99, 100].map(kept), [2, 2, 3]);
}

/// The admission policies compare text, so any other spelling would be denied half-way.
#[test]
fn u97_images_are_on_the_list_as_the_administrator_spells_them() {
    let pattern = |image: &str| ImagePattern::parse(image).unwrap();
    let images = UpgradeImages {
        listed: vec![pattern("org/mesh:*")],
        park: None,
        empty: vec![pattern("docker.io/org/pause:1")],
    };
    let is_listed = ["org/mesh:2", "docker.io/org/mesh:2"].map(|image| images.lists(image));
    assert_eq!(is_listed, [true, false]);
    // Runtimes spell in full what a status shows.
    let is_empty = ["docker.io/org/pause:1", "org/pause:1"].map(|image| images.is_empty(image));
    assert_eq!(is_empty, [true, true]);
}
