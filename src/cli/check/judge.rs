//! The rows of a pod template: the verdict on each of its sidecars.

use std::collections::BTreeMap;

use swaplet_core::check::around::Described;
use swaplet_core::check::names::meant_variable;
use swaplet_core::check::scripts::ConfigMaps;
use swaplet_core::cluster::headroom::fits_alone;
use swaplet_core::objects::command::{
    ContainerFacts, Executes, FirstLine, Obstacle, StandardPaths, Verdict, resolve_read,
};
use swaplet_core::objects::pod::RestartPolicy;
use swaplet_core::objects::pod::container_spec::{ContainerSpec, Rule};
use swaplet_core::objects::pod::rule::RuleMethod;
use swaplet_core::objects::pod::template::PodTemplate;
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, Mark, MarkProblem};
use swaplet_core::terminate::methods::swap::{OF_A_BROKEN_IMAGE, most_restarts};

use super::rows::{Answer, By, Row, mark_problem};
use super::settings::Settings;
use super::words;

/// Returns the rows of a pod template. Containers named in the settings count as sidecars whatever
/// their marks.
pub(super) fn of(described: &Described, settings: &Settings, maps: &ConfigMaps) -> Vec<Row> {
    let template = &described.template;
    let containers = &template.spec.containers;
    let is_sidecar =
        |container: &ContainerSpec| described.is_sidecar(container, &settings.sidecars);
    let only_sidecars =
        !template.injected && !containers.is_empty() && containers.iter().all(is_sidecar);
    let restarts_all = containers.iter().find(|container| {
        container.restart_rules.contains(&Rule::RestartsAll) && is_sidecar(container)
    });
    let mut rows = Vec::new();
    for container in containers {
        let answer = match is_sidecar(container) {
            true if is_not_a_job(template) => Some(Answer::NotAJob),
            true if only_sidecars => Some(Answer::OnlySidecars),
            true => Some(by_method(
                described,
                container,
                settings,
                restarts_all,
                maps,
            )),
            false => without_mark(container).or_else(|| refused(described)),
        };
        rows.extend(answer.map(|answer| row(described, container, answer, maps)));
    }
    counted(described, settings, &mut rows);
    rows.iter_mut().for_each(|row| note_rule(row, settings));
    let native = |container| row(described, container, Answer::Native, maps);
    rows.extend(template.spec.native_sidecars.iter().map(native));
    let nodes = described.placement.row(&settings.node_table);
    if nodes.is_some_and(|(nodes, _)| !nodes.class.is_kubelet()) {
        rows.iter_mut().for_each(|row| row.on_virtual_node = true);
    }
    rows
}

/// Returns the answer for a sidecar by the method of its rule. Where the end of one of them
/// (`restarts_all`) may restart all containers, none is swapped.
fn by_method(
    described: &Described,
    container: &ContainerSpec,
    settings: &Settings,
    restarts_all: Option<&ContainerSpec>,
    maps: &ConfigMaps,
) -> Answer {
    let rule = described.ruled.rule(&container.name);
    match rule.map(|rule| rule.method) {
        Some(RuleMethod::Leave) => return Answer::LeftAlone,
        Some(RuleMethod::Finish) if settings.finish => return Answer::ByPhase,
        _ => {}
    }
    match (verdict(described, container, maps), restarts_all) {
        (Verdict::Runnable { .. } | Verdict::NeedsImage { .. }, Some(by)) => {
            Answer::RestartsAll(by.name.clone())
        }
        (verdict, _) => Answer::Verdict(verdict),
    }
}

/// Returns the answer for a container that a policy names, if no main container would be left.
fn refused(described: &Described) -> Option<Answer> {
    let refused = described.ruled.refused.as_ref()?;
    Some(Answer::PolicyRefused(words::said_by(refused)))
}

/// Adds notes on the parts of a rule besides the method.
fn note_rule(row: &mut Row, settings: &Settings) {
    let Some(rule) = &row.rule else { return };
    if rule.method == RuleMethod::Finish && !settings.finish {
        row.warnings
            .push("method Finish is not allowed with --finish=never".to_owned());
    }
    if rule.main_must_succeed {
        row.notes
            .push("mainMustSucceed: if a main container fails, the pod keeps running".to_owned());
    }
    if let Some(image) = rule
        .exit_image
        .as_ref()
        .filter(|_| settings.exit_images.is_none())
    {
        row.notes.push(format!(
            "whether {image} is on the administrator's list is not known here (--exit-images)"
        ));
    }
}

fn verdict(described: &Described, container: &ContainerSpec, maps: &ConfigMaps) -> Verdict {
    let facts = ContainerFacts::of(&described.template.spec, container);
    let read = |path: &str| first_line(described, container, path, maps);
    resolve_read(&facts, &StandardPaths, &read)
}

fn first_line(
    described: &Described,
    container: &ContainerSpec,
    path: &str,
    maps: &ConfigMaps,
) -> Option<FirstLine> {
    let files = described.config_files.at(&container.name, path);
    maps.first_line(
        described.template.namespace.as_deref().unwrap_or_default(),
        &files,
    )
}

/// Returns the problem of a container that was meant to be marked, if it was.
fn without_mark(container: &ContainerSpec) -> Option<Answer> {
    match &container.mark.problem {
        // Harmless: it has an effect only together with another variable that marks.
        Some(MarkProblem::NotAFlag { variable } | MarkProblem::FromReference { variable })
            if *variable == IGNORE_EXIT_CODE =>
        {
            None
        }
        Some(problem) => Some(Answer::MarkInvalid(problem.clone())),
        None => misspelt(container).map(|(written, meant)| Answer::Misspelt {
            written: written.into(),
            meant,
        }),
    }
}

fn misspelt(container: &ContainerSpec) -> Option<(&str, &'static str)> {
    let names = container.env.iter().map(|entry| &*entry.name);
    names
        .filter_map(|name| Some((name, meant_variable(name)?)))
        .next()
}

/// Checks the headroom: under `OnFailure` each swap is a restart that the Job counts, or several as
/// the controller counts them until an exit image has worked.
fn counted(described: &Described, settings: &Settings, rows: &mut [Row]) {
    let policy = &described.template.spec.restart_policy;
    let Some(job) = described
        .job
        .as_ref()
        .filter(|_| *policy == Some(RestartPolicy::OnFailure))
    else {
        return;
    };
    let only_swaps = |row: &Row| {
        let rule = row.rule.as_ref();
        rule.is_some_and(|rule| rule.method == RuleMethod::Swap)
    };
    let may_finish = settings.finish && !rows.iter().any(only_swaps);
    let is_swapped = |row: &&mut Row| {
        matches!(
            row.answer,
            Answer::Verdict(Verdict::Runnable { .. } | Verdict::NeedsImage { .. })
        )
    };
    let mut swapped: Vec<_> = rows.iter_mut().filter(is_swapped).collect();
    let containers = described.template.spec.containers.iter();
    let own = containers
        .filter_map(|container| Some((&*container.name, container.mark.with_image.as_deref()?)));
    let own: BTreeMap<&str, &str> = own.collect();
    let is_risky = |row: &&&mut Row| {
        let own = own.get(&*row.container).copied();
        may_finish && may_not_start(row, own, settings)
    };
    let count = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX);
    let swaps = count(swapped.len());
    let risky = count(swapped.iter().filter(is_risky).count());
    let all = most_restarts(risky, swaps - risky);
    if fits_alone(all, job.backoff_limit) {
        return;
    }
    let field = format!("{}.backoffLimit", job.path);
    let (limit, least) = (job.backoff_limit, all.saturating_add(1));
    let more = if fits_alone(swaps, limit) {
        format!(
            ", of one whose exit image may not start as {OF_A_BROKEN_IMAGE} until one like it has ended in the namespace"
        )
    } else {
        String::new()
    };
    for row in &mut swapped {
        if may_finish {
            row.warnings.push(format!("under OnFailure its end counts as a restart{more}, which {field}: {limit} has no room for: the phase of the pod is written instead; for a swap it has to be at least {least}"));
        } else {
            row.answer = Answer::NoHeadroom {
                field: field.clone(),
                least,
                is_allowed: settings.finish,
            };
        }
    }
}

/// Returns true if the controller cannot know whether the exit image starts: of a listed one, such
/// as the container's `own`, it knows no paths, and it reads no scripts.
fn may_not_start(row: &Row, own: Option<&str>, settings: &Settings) -> bool {
    let asked = own.or_else(|| row.rule.as_ref()?.exit_image.as_deref());
    let is_listed = |image: &str| {
        let listed = settings.exit_images.as_ref();
        listed.is_none_or(|listed| listed.contains(image))
    };
    let is_script = matches!(
        &row.answer,
        Answer::Verdict(
            Verdict::Runnable {
                executes: Executes::Script(_) | Executes::ReadScript { .. }
            } | Verdict::NeedsImage {
                executes: Executes::Script(_) | Executes::ReadScript { .. },
                ..
            }
        )
    );
    is_script || asked.is_some_and(is_listed)
}

/// Returns true if the pods of a template are expected to end.
pub(super) fn may_end(template: &PodTemplate) -> bool {
    !is_not_a_job(template)
}

/// Returns true if the pods are to run forever. Containers may have other restart policies, and
/// then end; but swaplet leaves such pods alone.
fn is_not_a_job(template: &PodTemplate) -> bool {
    match &template.spec.restart_policy {
        Some(policy) => *policy == RestartPolicy::Always,
        None => template.restarts_always_by_default(),
    }
}

fn row(described: &Described, container: &ContainerSpec, answer: Answer, maps: &ConfigMaps) -> Row {
    let template = &described.template;
    Row {
        file: None,
        namespace: template.namespace.clone(),
        kind: template.kind.clone(),
        name: template.name.clone(),
        place: template.place.clone(),
        by: By::of(described, container),
        rule: described.ruled.rule(&container.name).cloned(),
        container: container.name.clone(),
        has_command: container.command.is_some(),
        on_virtual_node: false,
        warnings: warnings(described, container, &answer, maps),
        notes: notes(template, container, &answer),
        answer,
    }
}

fn warnings(
    described: &Described,
    container: &ContainerSpec,
    answer: &Answer,
    maps: &ConfigMaps,
) -> Vec<String> {
    let mut warnings = Vec::new();
    match answer {
        Answer::Verdict(
            Verdict::Runnable {
                executes: Executes::Script(path),
            }
            | Verdict::NeedsImage {
                executes: Executes::Script(path),
                ..
            },
        ) => warnings.push(assumed(described, container, path, maps)),
        Answer::Verdict(Verdict::NotSwappable {
            reason: Obstacle::CommandInvalid,
            path: Some(path),
        }) if first_line(described, container, path, maps).is_some() => {
            warnings.push(format!(
                "the first line of {path} is not #! and the path of a program, so nothing can execute it"
            ));
        }
        _ => {}
    }
    if matches!(answer, Answer::Verdict(_) | Answer::Native)
        && let Some((written, meant)) = misspelt(container)
    {
        warnings.push(format!(
            "the variable {written} means nothing; is it {meant}?"
        ));
    }
    warnings
}

/// Returns the note on a script that was not read.
fn assumed(
    described: &Described,
    container: &ContainerSpec,
    path: &str,
    maps: &ConfigMaps,
) -> String {
    let namespace = described.template.namespace.as_deref().unwrap_or_default();
    let why = match described.config_files.at(&container.name, path).first() {
        Some(file) if maps.has(namespace, &file.map) => {
            format!("ConfigMap {} has no text {}", file.map, file.key)
        }
        Some(file) => format!(
            "ConfigMap {} is not in the input, or cannot be read in the cluster; pass its manifest too",
            file.map
        ),
        None => "it is not in a ConfigMap, and only these are read".to_owned(),
    };
    format!("{path} is assumed to be a script of sh, bash or anything that env starts: {why}")
}

fn notes(template: &PodTemplate, container: &ContainerSpec, answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    if let Answer::Verdict(_) = answer {
        notes.extend(
            ContainerFacts::of(&template.spec, container)
                .notes()
                .iter()
                .map(|note| note.text().to_owned()),
        );
        if template.injected {
            notes.push("injected: the pods that get this container also count".to_owned());
        }
        notes.extend(mark_note(&container.mark));
    }
    if *answer == Answer::Native && container.mark.is_sidecar() {
        notes.push("the marking variable has no effect here, and none is needed".to_owned());
    }
    notes
}

fn mark_note(mark: &Mark) -> Option<String> {
    match (&mark.with_image, &mark.problem) {
        (_, Some(problem)) => Some(mark_problem(problem)),
        (Some(image), None) => Some(format!(
            "names its own exit image {image}, which is assumed to be one of swaplet with the standard paths"
        )),
        (None, None) => None,
    }
}
