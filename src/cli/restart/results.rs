//! The results of a restart: a line per container.

use std::collections::BTreeMap;

use serde_json::json;

use super::member::{Member, Outcome, Seen, State, time};
use crate::cli::program::table::{Line, Output, render};

/// Formats the final table, or its JSON or YAML.
pub(super) fn show(members: &[Member], output: Output) -> anyhow::Result<String> {
    let rows = || {
        members
            .iter()
            .flat_map(|member| member.containers.iter().map(move |seen| (member, seen)))
    };
    let lines = rows().map(|(member, seen)| line(member, seen, output == Output::Wide));
    let programs: Vec<_> = rows()
        .map(|(member, seen)| {
            json!({
                "pod": member.name, "container": seen.name, "node": member.node, "result": word(member),
                "message": message(member, seen), "phase": seen.phase.as_str(), "ready": seen.ready,
                "startedBefore": seen.before.map(|at| time(Some(at))), "started": seen.started.map(|at| time(Some(at))),
            })
        })
        .collect();
    let lines: Vec<_> = lines.collect();
    render(output, &lines, &json!({"containers": programs}))
}

/// Formats the plan; `held` has what members would wait for, by their index.
pub(super) fn show_plan(
    members: &[Member],
    held: &BTreeMap<usize, String>,
    output: Output,
) -> anyhow::Result<String> {
    let containers = |member: &Member| {
        member
            .containers
            .iter()
            .map(|seen| seen.name.clone())
            .collect::<Vec<_>>()
    };
    let turn = |index| {
        held.get(&index)
            .map_or_else(|| "now".to_owned(), |hold| format!("later: {hold}"))
    };
    let rows = members.iter().enumerate();
    let lines = rows.clone().map(|(index, member)| {
        vec![
            ("POD", member.name.clone()),
            ("CONTAINERS", containers(member).join(",")),
            ("NODE", member.node.clone()),
            ("TURN", turn(index)),
        ]
    });
    let lines: Vec<_> = lines.collect();
    let programs: Vec<_> = rows
        .map(|(index, member)| {
            json!({"pod": member.name, "containers": containers(member), "node": member.node, "heldBy": held.get(&index)})
        })
        .collect();
    render(output, &lines, &json!({"pods": programs}))
}

fn line(member: &Member, seen: &Seen, wide: bool) -> Line {
    let ready = if seen.ready { "yes" } else { "no" };
    let mut line = vec![
        ("POD", member.name.clone()),
        ("CONTAINER", seen.name.clone()),
        ("RESULT", word(member).to_owned()),
        ("READY", ready.to_owned()),
        ("BEFORE", time(seen.before)),
        ("STARTED", time(seen.started)),
    ];
    line.extend(wide.then(|| ("NODE", member.node.clone())));
    line.push(("MESSAGE", message(member, seen)));
    line
}

fn word(member: &Member) -> &'static str {
    match &member.state {
        State::Over(outcome) => outcome.word(),
        State::Restarting(_) => "Requested",
        State::Waiting => "Waiting",
    }
}

/// Returns the message of the request about this container, else the outcome of its pod.
fn message(member: &Member, seen: &Seen) -> String {
    match &member.state {
        State::Over(Outcome::Failed(why)) if seen.message.is_empty() => why.clone(),
        State::Over(Outcome::NotStarted(why) | Outcome::Left(why)) => why.clone(),
        State::Over(Outcome::Succeeded(_)) if seen.message.is_empty() => member.remark.clone(),
        State::Over(_) | State::Restarting(_) | State::Waiting => seen.message.clone(),
    }
}

/// Counts the pods by outcome, in a line.
pub(super) fn summary(members: &[Member]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    members
        .iter()
        .for_each(|member| *counts.entry(word(member)).or_default() += 1);
    let counts: Vec<_> = counts
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    format!("pods: {}", counts.join(", "))
}
