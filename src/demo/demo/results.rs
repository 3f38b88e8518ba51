//! The results of the Jobs and pods of the demo, as a table.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;

/// One row: a pod and its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The Job; empty for a pod without one.
    pub job: String,
    /// The last observed phase of the pod.
    pub phase: String,
    /// The names of its sidecars.
    pub sidecars: Vec<String>,
    /// When all its main containers were observed ended.
    pub mains_ended: Option<Moment>,
    /// When it was observed finished.
    pub finished: Option<Moment>,
    /// The number of patches of it that were applied.
    pub patches: usize,
}

/// All rows, and the state of each Job.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The rows, by the pod's name.
    pub pods: BTreeMap<String, Row>,
    /// The state of each Job, by its name.
    pub jobs: BTreeMap<String, String>,
}

impl Results {
    /// Returns true if every Job is complete and every pod without a Job has succeeded.
    #[must_use]
    pub fn all_completed(&self) -> bool {
        let jobs = self.jobs.values().all(|state| state == COMPLETE);
        let pods = self
            .pods
            .values()
            .filter(|row| row.job.is_empty())
            .all(|row| row.phase == "Succeeded");
        jobs && pods && !(self.jobs.is_empty() && self.pods.is_empty())
    }

    /// Formats the table, in the style of kubectl.
    #[must_use]
    pub fn table(&self) -> String {
        let mut rows = vec![
            [
                "JOB",
                "STATUS",
                "POD",
                "PHASE",
                "SIDECARS",
                "AFTER MAIN",
                "PATCHES",
            ]
            .map(str::to_owned),
        ];
        rows.extend(self.pods.iter().map(|(name, row)| self.row(name, row)));
        format!("\n{}{}", align(&rows), self.hint())
    }

    /// Returns what to do where swaplet had nothing to do; else empty.
    fn hint(&self) -> String {
        let unmarked = self.pods.values().all(|row| row.sidecars.is_empty());
        if self.pods.is_empty() || !unmarked {
            return String::new();
        }
        format!(
            "\nNo container is marked as a sidecar, so swaplet had nothing to do. Mark each sidecar by a variable:\n  \
             env: [{{name: {WHEN_JOB_EXIT}, value: \"true\"}}]\n"
        )
    }

    fn row(&self, name: &str, row: &Row) -> [String; 7] {
        let status = self.jobs.get(&row.job).cloned().unwrap_or_default();
        let after = match (row.mains_ended, row.finished) {
            (Some(mains), Some(pod)) => format!("{:.1}s", pod.since(mains).as_secs_f64()),
            _ => "-".to_owned(),
        };
        [
            row.job.clone(),
            status,
            name.to_owned(),
            row.phase.clone(),
            row.sidecars.join(","),
            after,
            row.patches.to_string(),
        ]
        .map(|cell| {
            if cell.is_empty() {
                "-".to_owned()
            } else {
                cell
            }
        })
    }
}

/// The state of a Job that has completed.
const COMPLETE: &str = "Complete";
/// The state of a Job that has not ended.
pub const RUNNING: &str = "Running";

/// Returns the state of a Job in one word.
#[must_use]
pub fn job_state(job: &Job) -> String {
    let conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ended = conditions.filter(|found| {
        found.status == "True" && matches!(found.type_.as_str(), COMPLETE | "Failed")
    });
    ended
        .next()
        .map_or_else(|| RUNNING.to_owned(), |condition| condition.type_.clone())
}

fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    });
    let line = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect::<Vec<_>>()
            .join("   ");
        format!("{}\n", cells.trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(state: &str, phase: &str) -> Results {
        let row = Row {
            job: "extract".to_owned(),
            phase: phase.to_owned(),
            ..Row::default()
        };
        Results {
            pods: [("extract-1".to_owned(), row)].into(),
            jobs: [("extract".to_owned(), state.to_owned())].into(),
        }
    }

    #[test]
    fn only_complete_jobs_are_a_success() {
        assert!(results("Complete", "Succeeded").all_completed());
        assert!(!results("Running", "Running").all_completed());
        assert!(!Results::default().all_completed());
    }

    #[test]
    fn who_has_marked_nothing_is_told_how() {
        let mut results = results("Complete", "Succeeded");
        assert!(
            results
                .table()
                .contains("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT")
        );
        for row in results.pods.values_mut() {
            row.sidecars.push("log".to_owned());
        }
        assert!(!results.table().contains("marked"));
    }

    #[test]
    fn cells_are_aligned_and_never_empty() {
        let table = results("Running", "Running").table();
        assert_eq!(
            table.lines().nth(2),
            Some("extract   Running   extract-1   Running   -          -            0")
        );
    }
}
