//! The indexes of an Indexed Job.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::pods::{is_active, phase};

/// The label and annotation of a pod with its index.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Returns true if each pod of the job has an index of its own.
pub fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// Returns the indexes whose pods have succeeded, by the status and by pods not yet in it.
pub(super) fn completed(spec: &JobSpec, status: &JobStatus, pods: &[Pod]) -> BTreeSet<usize> {
    let all = usize::try_from(spec.completions.unwrap_or(0)).unwrap_or(0);
    let noted = ranges(status.completed_indexes.as_deref().unwrap_or_default(), all);
    let good = pods.iter().filter(|pod| phase(pod) == "Succeeded");
    noted
        .into_iter()
        .chain(good.filter_map(of_pod))
        .filter(|index| *index < all)
        .collect()
}

/// Returns the `many` lowest indexes that are neither completed nor active.
pub(super) fn next(
    spec: &JobSpec,
    completed: &BTreeSet<usize>,
    pods: &[Pod],
    many: usize,
) -> Vec<usize> {
    let all = usize::try_from(spec.completions.unwrap_or(0)).unwrap_or(0);
    let busy: BTreeSet<usize> = pods
        .iter()
        .filter(|pod| is_active(pod))
        .filter_map(of_pod)
        .collect();
    (0..all)
        .filter(|index| !completed.contains(index) && !busy.contains(index))
        .take(many)
        .collect()
}

fn of_pod(pod: &Pod) -> Option<usize> {
    pod.annotations().get(INDEX)?.parse().ok()
}

/// Formats indexes as the status has them: `0-2,4`.
pub(super) fn text(indexes: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let run = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// Parses what [`text`] formats; indexes from `all` on are dropped.
fn ranges(text: &str, all: usize) -> Vec<usize> {
    let run = |run: &str| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(first..(last + 1).min(all))
    };
    text.split(',').filter_map(run).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the real controller writes them.
    #[test]
    fn indexes_are_written_in_runs_and_read_again() {
        for (indexes, written) in [
            (&[][..], ""),
            (&[0], "0"),
            (&[0, 1], "0,1"),
            (&[0, 1, 2, 4], "0-2,4"),
            (&[1, 3, 4, 5, 7, 8], "1,3-5,7,8"),
        ] {
            let set = indexes.iter().copied().collect();
            assert_eq!(text(&set), written);
            assert_eq!(ranges(written, 100), indexes);
        }
        assert_eq!(ranges("5-99999999999", 7), [5, 6]);
    }
}
