//! The results of a restart: a line per container.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::member::{Member, Outcome, Seen, State, time};
use crate::cli::program::table::{Line, Output, render};

/// Formats the final table, or its JSON or YAML.
pub(super) fn show(members: &[Member], output: Output) -> anyhow::Result<String> {
    let wide = output == Output::Wide;
    let rows = members.iter().flat_map(|member| {
        let containers = member.containers.iter();
        containers.map(move |seen| row(member, seen, wide))
    });
    let (lines, values): (Vec<_>, Vec<_>) = rows.unzip();
    render(output, &lines, &json!({ "containers": values }))
}

/// Formats the plan; `held` has what members would wait for, by their index.
pub(super) fn show_plan(
    members: &[Member],
    held: &BTreeMap<usize, String>,
    output: Output,
) -> anyhow::Result<String> {
    let row = |(index, member): (usize, &Member)| {
        let containers = member.containers.iter().map(|seen| &*seen.name);
        let containers: Vec<_> = containers.collect();
        let held = held.get(&index);
        let turn = held.map_or_else(|| "now".to_owned(), |hold| format!("later: {hold}"));
        let line = vec![
            ("POD", member.name.clone()),
            ("CONTAINERS", containers.join(",")),
            ("NODE", member.node.clone()),
            ("TURN", turn),
        ];
        let value = json!({"pod": member.name, "containers": containers, "node": member.node, "heldBy": held});
        (line, value)
    };
    let (lines, values): (Vec<_>, Vec<_>) = members.iter().enumerate().map(row).unzip();
    render(output, &lines, &json!({ "pods": values }))
}

fn row(member: &Member, seen: &Seen, wide: bool) -> (Line, Value) {
    let (word, message) = (word(member), message(member, seen));
    let value = json!({
        "pod": member.name, "container": seen.name, "node": member.node, "result": word,
        "message": message, "phase": seen.phase.as_str(), "ready": seen.ready,
        "startedBefore": seen.before.map(|at| time(Some(at))), "started": seen.started.map(|at| time(Some(at))),
    });
    let ready = if seen.ready { "yes" } else { "no" };
    let mut line = vec![
        ("POD", member.name.clone()),
        ("CONTAINER", seen.name.clone()),
        ("RESULT", word.to_owned()),
        ("READY", ready.to_owned()),
        ("BEFORE", time(seen.before)),
        ("STARTED", time(seen.started)),
    ];
    line.extend(wide.then(|| ("NODE", member.node.clone())));
    line.push(("MESSAGE", message));
    (line, value)
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
