//! What was reported about each pod, so that it is reported once.

use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::report::decision::Report;

use super::state::Uid;

/// The maximum number of reports that are remembered per pod: the texts quote its annotation, which
/// may be changed as often as a tenant likes.
const MOST_TOLD: usize = 64;

/// The recent reports about each pod.
#[derive(Default)]
pub(super) struct Reported(BTreeMap<Uid, BTreeSet<String>>);

impl Reported {
    /// Records a report about a pod. Returns true unless it was reported recently.
    pub(super) fn is_new(&mut self, pod: &Uid, report: &Report) -> bool {
        let told = self.0.entry(pod.clone()).or_default();
        let text = format!("{} {}", report.reason, report.note);
        if told.contains(&text) {
            return false;
        }
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        told.insert(text)
    }

    /// Forgets the pods for which `is_there` returns false.
    pub(super) fn retain(&mut self, is_there: impl Fn(&Uid) -> bool) {
        self.0.retain(|uid, _| is_there(uid));
    }
}

#[cfg(test)]
mod tests {
    use swaplet_core::report::reason::Reason;

    use super::*;

    #[test]
    fn a_report_is_new_once_and_few_are_remembered_of_a_pod() {
        let pod = Uid::from("u");
        let report = |number: usize| Report {
            reason: Reason::RestartOnInvalid,
            note: format!("annotation {number}"),
        };
        let mut reported = Reported::default();
        for number in 0..1000 {
            assert!(reported.is_new(&pod, &report(number)));
            assert!(!reported.is_new(&pod, &report(number)));
            assert!(reported.0[&pod].len() <= MOST_TOLD);
        }
        assert!(reported.is_new(&Uid::from("other"), &report(999)));
        reported.retain(|uid| *uid == pod);
        assert_eq!(reported.0.len(), 1);
    }
}
