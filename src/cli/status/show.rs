//! The output of `swaplet status`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use swaplet_controller::terminate::snapshot::said::Told;

use super::ask::Asked;
use super::cluster::{Facts, Stuck};
use super::judge::Check;
use crate::cli::program::table::{
    Output, age, aligned, json as as_json, printable, section, table, yaml,
};
use crate::cli::run::config::Setting;

/// The maximum number of stuck pods that are listed.
const MOST_STUCK: usize = 10;
/// The maximum number of Warnings that are shown.
const MOST_WARNINGS: usize = 10;

pub(super) fn show(
    checks: &[Check],
    all: &[Asked],
    cluster: Option<&Facts>,
    output: Output,
) -> anyhow::Result<String> {
    Ok(match output {
        Output::Table | Output::Wide => text(checks, all, cluster, output == Output::Wide),
        Output::Json => as_json(&value(checks, all, cluster)),
        Output::Yaml => yaml(&value(checks, all, cluster))?,
        Output::Name => names(checks),
    })
}

/// Lists the Deployments, each once, one per line.
fn names(checks: &[Check]) -> String {
    let places: BTreeSet<_> = checks
        .iter()
        .filter_map(|check| check.installation.rsplit_once('/'))
        .collect();
    places
        .into_iter()
        .map(|(_, name)| format!("deployment/{name}\n"))
        .collect()
}

fn text(checks: &[Check], all: &[Asked], cluster: Option<&Facts>, wide: bool) -> String {
    let mut text = String::new();
    let mut heading = None;
    for check in checks {
        if heading != Some(&check.installation) {
            heading = Some(&check.installation);
            let title = match &*check.installation {
                "" => "Cluster".to_owned(),
                place => format!("Deployment {place}"),
            };
            let begin = if text.is_empty() { "" } else { "\n" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{begin}{}:", printable(&title));
        }
        let (mark, subject) = (check.state.mark(), check.subject);
        let _ = writeln!(text, "  {mark:5} {subject:22} {}", printable(&check.words));
    }
    if let Some(facts) = cluster {
        let remarks = facts.pods.iter().flat_map(|pods| &pods.remarks);
        for words in remarks {
            let _ = writeln!(text, "  {:5} {:22} {}", "note", "", printable(words));
        }
        stuck(&mut text, facts);
        warnings(&mut text, facts);
    }
    if wide {
        flags(&mut text, all);
    }
    text
}

fn stuck(text: &mut String, facts: &Facts) {
    let Ok(pods) = &facts.pods else { return };
    if pods.stuck.is_empty() {
        return;
    }
    let line = |stuck: &Stuck| {
        let since = stuck.since.map(|since| age(since, facts.now));
        vec![
            ("NAMESPACE", stuck.namespace.clone()),
            ("POD", stuck.name.clone()),
            ("STUCK", since.unwrap_or_default()),
            ("DECISION", stuck.reason.as_str().to_owned()),
        ]
    };
    let lines: Vec<_> = pods.stuck.iter().take(MOST_STUCK).map(line).collect();
    let title = match pods.stuck.len().saturating_sub(MOST_STUCK) {
        0 => "Stuck pods".to_owned(),
        more => format!("Stuck pods ({more} more: swaplet rescue -A --dry-run)"),
    };
    section(text, &title, &table(&lines));
}

fn warnings(text: &mut String, facts: &Facts) {
    let Ok(warnings) = &facts.warnings else {
        return;
    };
    if warnings.is_empty() {
        return;
    }
    let line = |warning: &Told| {
        vec![
            ("AGE", age(warning.said.at, facts.now)),
            ("ABOUT", warning.about.clone()),
            ("REASON", warning.said.reason.clone()),
            ("MESSAGE", warning.said.note.clone()),
        ]
    };
    let lines: Vec<_> = warnings.iter().take(MOST_WARNINGS).map(line).collect();
    let title = match warnings.len().saturating_sub(MOST_WARNINGS) {
        0 => "Warnings of swaplet".to_owned(),
        more => format!("Warnings of swaplet ({more} older ones: kubectl get events)"),
    };
    section(text, &title, &table(&lines));
}

fn flags(text: &mut String, all: &[Asked]) {
    for asked in all {
        let Ok(flags) = &asked.installation.flags else {
            continue;
        };
        let title = format!("Flags of Deployment {}", asked.installation.place());
        let said = flags.settings.iter().filter(|setting| setting.is_said);
        let lines: Vec<_> = said.map(|setting| vec![setting.in_one_line()]).collect();
        section(text, &title, &aligned(&lines));
    }
}

fn value(checks: &[Check], all: &[Asked], cluster: Option<&Facts>) -> Value {
    let pods = cluster.and_then(|facts| facts.pods.as_ref().ok());
    let warnings = cluster.and_then(|facts| facts.warnings.as_ref().ok());
    let stuck_pod = |stuck: &Stuck| json!({"namespace": stuck.namespace, "name": stuck.name, "since": stuck.since, "reason": stuck.reason.as_str()});
    json!({
        "checks": checks,
        "installations": all.iter().map(installation).collect::<Vec<_>>(),
        "nodeClasses": cluster.and_then(|facts| facts.nodes.as_ref().ok()),
        "stuckPods": pods.map(|pods| pods.stuck.iter().map(stuck_pod).collect::<Vec<_>>()),
        "remarks": pods.map(|pods| &pods.remarks),
        "jobsWithoutTtl": cluster.and_then(|facts| facts.kept_jobs.as_ref().ok()),
        "warnings": warnings.map(|all| all.iter().take(MOST_WARNINGS).map(warning).collect::<Vec<_>>()),
    })
}

fn installation(asked: &Asked) -> Value {
    let installation = &asked.installation;
    let held = asked.lease.as_ref().and_then(|lease| lease.as_ref().ok());
    let flags = installation.flags.as_ref().ok();
    let said = flags.map(|flags| {
        let said = flags.settings.iter().filter(|setting| setting.is_said);
        said.map(Setting::in_one_line).collect::<Vec<_>>()
    });
    json!({
        "namespace": installation.namespace,
        "name": installation.name,
        "version": installation.version,
        "image": installation.image,
        "replicas": {"wanted": installation.replicas.0, "ready": installation.replicas.1},
        "leader": held.map(|held| json!({"holder": held.holder, "renewed": held.renewed})),
        "missingRights": asked.rights.iter()
            .filter(|(_, may)| flags.is_some() && *may == Some(false))
            .map(|(right, _)| right.words()).collect::<Vec<_>>(),
        "flags": said,
        "sidecarPolicies": {
            "on": asked.sidecar_policies.are_on,
            "count": asked.sidecar_policies.count,
            "policies": asked.sidecar_policies.all,
        },
    })
}

fn warning(warning: &Told) -> Value {
    let said = &warning.said;
    json!({"time": said.at, "about": warning.about, "reason": said.reason, "note": said.note})
}
