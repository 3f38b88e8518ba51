//! The pods whose swaps show what nodes of unknown class do with a changed image, each on its node.

use std::collections::HashMap;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;

/// How long a pod waits for probes by pods of other namespaces, from when its main containers were
/// done: as long as a single probe takes at most. Otherwise a tenant whose pods become the probe
/// one after another, and prove nothing, would keep it waiting without end.
const FOR_OTHERS: Duration = Duration::from_secs(630);

/// The probes, by node. A node has one at a time, and one more of each namespace whose pods have
/// waited long enough for those of others.
#[derive(Default)]
pub(super) struct Probes(HashMap<Box<str>, Vec<Probe>>);

struct Probe {
    namespace: Box<str>,
    pod: Box<str>,
    until: Moment,
}

impl Probes {
    /// Records the swap of a pod as a probe of its node.
    pub(super) fn start(&mut self, pod: &Pod, until: Moment, now: Moment) {
        let probes = self.0.entry(pod.node.clone()).or_default();
        probes.retain(|probe| probe.until > now && probe.namespace != pod.namespace);
        probes.push(Probe {
            namespace: pod.namespace.clone(),
            pod: pod.uid.clone(),
            until,
        });
    }

    /// Ends the probe by this pod. Returns true if it was one.
    pub(super) fn end(&mut self, pod: &Pod) -> bool {
        let Some(probes) = self.0.get_mut(&pod.node) else {
            return false;
        };
        let before = probes.len();
        probes.retain(|probe| probe.pod != pod.uid);
        let has_ended = probes.len() < before;
        if probes.is_empty() {
            self.0.remove(&pod.node);
        }
        has_ended
    }

    /// Ends the probes of a node that is gone.
    pub(super) fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// Returns until when a pod waits for probes of its node by other pods; `None` if it waits for
    /// none. `done_at` is when its main containers were observed to be done.
    pub(super) fn until(&self, pod: &Pod, done_at: Option<Moment>, now: Moment) -> Option<Moment> {
        let latest = done_at.unwrap_or(now) + FOR_OTHERS;
        let others = self
            .0
            .get(&pod.node)?
            .iter()
            .filter(|probe| probe.pod != pod.uid);
        let until = others.map(|probe| {
            if probe.namespace == pod.namespace {
                probe.until
            } else {
                probe.until.min(latest)
            }
        });
        until.filter(|until| *until > now).max()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::objects::pod::wire::PodWire;

    use super::*;

    fn pod(namespace: &str, name: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}")},
            "spec": {"restartPolicy": "OnFailure", "nodeName": "node-1", "containers": [{"name": "main", "image": "main:1"}]},
        });
        serde_json::from_value::<PodWire>(pod)
            .unwrap()
            .read()
            .unwrap()
    }

    const fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    #[test]
    fn probes_that_follow_each_other_keep_no_pod_of_another_namespace_waiting_for_longer_than_one()
    {
        let mut probes = Probes::default();
        let (modest, own) = (pod("modest", "p"), pod("greedy", "p"));
        for nth in 0..3 {
            let start = at(630 * nth);
            let probe = pod("greedy", &format!("p{nth}"));
            probes.start(&probe, start + FOR_OTHERS, start);
            assert_eq!(probes.until(&probe, Some(at(0)), start), None);
        }
        let now = at(1270);
        assert_eq!(probes.until(&modest, Some(at(1260)), now), Some(at(1890)));
        assert_eq!(probes.until(&modest, Some(at(700)), now), Some(at(1330)));
        assert_eq!(probes.until(&modest, Some(at(640)), now), None);
        assert_eq!(probes.until(&modest, None, now), Some(at(1890)));
        assert_eq!(
            probes.until(&own, Some(at(0)), now),
            Some(at(1890)),
            "at most one pod of each namespace is harmed at a time"
        );
    }

    #[test]
    fn a_pod_that_has_waited_long_enough_is_the_probe_of_its_own_namespace_besides() {
        let mut probes = Probes::default();
        let (greedy, modest) = (pod("greedy", "p"), pod("modest", "p"));
        probes.start(&greedy, at(2000), at(1000));
        probes.start(&modest, at(1800), at(1100));
        let until = |probes: &Probes, pod: &Pod| probes.until(pod, Some(at(0)), at(1200));
        assert_eq!(until(&probes, &pod("modest", "q")), Some(at(1800)));
        assert_eq!(until(&probes, &pod("greedy", "q")), Some(at(2000)));
        assert_eq!(until(&probes, &pod("third", "q")), None);
        assert!(probes.end(&greedy) && !probes.end(&greedy));
        assert_eq!(until(&probes, &pod("greedy", "q")), None);
        assert_eq!(until(&probes, &pod("modest", "q")), Some(at(1800)));
        assert!(probes.end(&modest) && probes.0.is_empty());
    }
}
