//! Judges the state of the cluster.

use jiff::Timestamp;

use super::super::cluster::{Facts, Pods, STUCK_SECONDS, Stuck};
use super::{Check, Said, State, some};
use crate::cli::program::table::{age, counted};

pub fn cluster(facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut add = |subject, said| checks.push(Check::new("", subject, said));
    add("nodes", nodes(facts));
    match &facts.pods {
        Ok(pods) => {
            add("exit image", exit_image(pods));
            add("stuck pods", stuck(pods, facts.now));
            if let Some(words) = &pods.unmarked {
                add("unmarked sidecars", State::Note.says(words));
            }
        }
        Err(words) => add(
            "stuck pods",
            State::Unknown.says(format!("cannot be read: {words}")),
        ),
    }
    add("Jobs on virtual nodes", kept_jobs(facts));
    add("Warnings", warnings(facts));
    checks
}

fn nodes(facts: &Facts) -> Said {
    match &facts.nodes {
        Err(words) => State::Unknown.says(format!("cannot be read: {words}")),
        Ok(_) if !facts.node_problems.is_empty() => {
            State::Attention.says(some(&facts.node_problems))
        }
        Ok(classes) => {
            let classes: Vec<_> = classes
                .iter()
                .map(|(class, count)| format!("{count} {class}"))
                .collect();
            State::Ok.says(format!("{} (swaplet nodes says why)", some(&classes)))
        }
    }
}

fn exit_image(pods: &Pods) -> Said {
    if let Some((node, words)) = pods.not_pulled.first_key_value() {
        return State::Attention.says(format!(
            "{} cannot pull it, {node} for one: {words}. Give the nodes access to its registry, or name another --exit-image",
            counted(pods.not_pulled.len(), "node")
        ));
    }
    match pods.pulled.len() {
        _ if !pods.knows_exit_image => {
            State::Unknown.says("no installation was found that says which it is")
        }
        0 => State::Note.says("no pod shows yet whether nodes can pull it"),
        count => State::Ok.says(format!("pods on {} have run it", counted(count, "node"))),
    }
}

fn stuck(pods: &Pods, now: Timestamp) -> Said {
    let age_of = |since: Timestamp| since.duration_until(now).as_secs();
    let long = |since: Option<Timestamp>| since.is_none_or(|since| age_of(since) > STUCK_SECONDS);
    // What is left to others on purpose is no Warning.
    let is_stuck = |stuck: &&Stuck| {
        stuck.reason.is_warning() && stuck.reason.needs_a_hand() || long(stuck.since)
    };
    let are_stuck: Vec<_> = pods.stuck.iter().filter(is_stuck).collect();
    match (pods.stuck.len(), are_stuck.len()) {
        (0, _) if pods.policies_are_unread => State::Unknown.says(
            "none by marks and the policies that can be read; those that cannot may name sidecars too",
        ),
        (0, _) => State::Ok.says("none"),
        (all, _) if pods.is_idle => State::Note.says(format!(
            "{all} waiting: the controller runs with --terminate=false, so it ends no sidecars; swaplet rescue does"
        )),
        (all, 0) if !pods.knows_exit_image => State::Unknown.says(format!(
            "{all} waiting, and whether a controller ends them is not known"
        )),
        (1, 0) => State::Ok.says("1 is being ended"),
        (all, 0) => State::Ok.says(format!("{all} are being ended")),
        (all, stuck) => {
            let since = pods.stuck.iter().filter_map(|stuck| stuck.since).min();
            let longest = since.map_or("unknown".to_owned(), |since| age(since, now));
            let by_hand = are_stuck.iter().filter(|stuck| stuck.needs_a_hand).count();
            let then = match by_hand {
                0 => "swaplet explain says why, swaplet rescue ends them".to_owned(),
                by_hand if by_hand == stuck => {
                    "swaplet explain says why, and what to change".to_owned()
                }
                by_hand => format!(
                    "swaplet explain says why, and what to change for {by_hand} of them; swaplet rescue ends the others"
                ),
            };
            State::Attention.says(format!(
                "{stuck} of {all} that wait for their sidecars have waited for more than {STUCK_SECONDS} s, or cannot be ended, the longest for {longest}: {then}"
            ))
        }
    }
}

fn kept_jobs(facts: &Facts) -> Said {
    match &facts.kept_jobs {
        Err(words) => State::Unknown.says(format!("cannot be read: {words}")),
        Ok(jobs) if jobs.is_empty() => State::Ok.says("none is kept forever"),
        Ok(jobs) => {
            let names: Vec<_> = jobs.iter().cloned().collect();
            State::Attention.says(format!(
                "{} without ttlSecondsAfterFinished, and what runs there may be billed until the pod is deleted: {}",
                counted(jobs.len(), "Job"),
                some(&names)
            ))
        }
    }
}

fn warnings(facts: &Facts) -> Said {
    match &facts.warnings {
        Err(words) => State::Unknown.says(format!("cannot be read: {words}")),
        Ok(warnings) if warnings.is_empty() => State::Ok.says("none in the last hour"),
        Ok(warnings) => State::Note.says(format!(
            "{}, below, the newest first: docs/troubleshooting.md explains each reason",
            counted(warnings.len(), "Warning")
        )),
    }
}
