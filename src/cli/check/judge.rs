//! The rows of a pod template: the verdict on each of its sidecars.

use std::sync::Arc;

use swaplet_core::check::around::Described;
use swaplet_core::check::names::meant_variable;
use swaplet_core::check::scripts::ConfigMaps;
use swaplet_core::cluster::headroom::fits_alone;
use swaplet_core::cluster::node_table::Row as NodeRow;
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::command::{
    ContainerFacts, Executes, FirstLine, Obstacle, StandardPaths, Verdict, resolve_read,
};
use swaplet_core::objects::pod::container_spec::ContainerSpec;
use swaplet_core::objects::pod::template::PodTemplate;
use swaplet_core::objects::pod::{RestartPolicy, RuleMethod};
use swaplet_core::objects::sidecar_policy::CLOSED;
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, Mark, MarkProblem, WITH_IMAGE};
use swaplet_core::report::decision::Method;
use swaplet_core::terminate::methods::AllowedMethods;

use super::rows::{Answer, By, Row, mark_problem};
use super::{Settings, words};

/// Returns the rows of a pod template. Containers named in the settings count as sidecars whatever
/// their marks.
pub(super) fn of(described: &Described, settings: &Settings, maps: &ConfigMaps) -> Vec<Row> {
    let template = &described.template;
    let containers = &template.spec.containers;
    let is_sidecar =
        |container: &ContainerSpec| described.is_sidecar(container, &settings.sidecars);
    let only_sidecars =
        !template.injected && !containers.is_empty() && containers.iter().all(is_sidecar);
    let restarts_all = containers
        .iter()
        .filter(|container| is_sidecar(container))
        .chain(&template.spec.native_sidecars)
        .find(|container| container.restart_rules.iter().any(|rule| rule.restarts_all));
    let mut rows = Vec::new();
    for container in containers {
        let answer = match is_sidecar(container) {
            true if !may_end(template) => Some(Answer::NotAJob),
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
        rows.extend(answer.map(|answer| {
            let mut row = row(described, container, answer, maps);
            note_own_image(&mut row, &container.mark, settings);
            row
        }));
    }
    let nodes = described.placement.row(&settings.node_table);
    let known = nodes.as_ref().map(|(nodes, _)| nodes.class);
    let is_virtual = settings.virtual_nodes || known.is_some_and(|class| !class.is_kubelet());
    unswapped(described, settings, nodes, &mut rows);
    if !is_virtual {
        doubted(described, settings, &mut rows);
    }
    counted(described, settings, &mut rows);
    if !is_virtual {
        pulled(described, settings, &mut rows);
    }
    rows.iter_mut().for_each(|row| note_rule(row, settings));
    let native = |container| row(described, container, Answer::Native, maps);
    rows.extend(template.spec.native_sidecars.iter().map(native));
    rows.iter_mut()
        .for_each(|row| row.on_virtual_node = is_virtual);
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

/// Adds a note on the exit image that a container names; a warning if it does not count.
fn note_own_image(row: &mut Row, mark: &Mark, settings: &Settings) {
    let (Some(asked), None) = (&mark.with_image, &mark.problem) else {
        return;
    };
    if ImageReference::parse(asked).is_err() {
        return; // `unswapped` tells of it.
    }
    let listed = settings.exit_images.as_ref();
    let counts = listed.is_none_or(|listed| listed.lists(asked));
    if !counts {
        row.warnings.push(format!("its own exit image {asked} is not on the list of --exit-images: the default exit image is used"));
    } else if matches!(row.answer, Answer::Verdict(_)) {
        let listed = match &settings.exit_images {
            Some(_) => "",
            None => "is on the list of --exit-images, and ",
        };
        row.notes.push(format!("names its own exit image {asked}, which, as is assumed, {listed}is one of swaplet with the standard paths"));
    }
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

/// Returns whether the exit image would end a container; scripts are read in `maps`.
pub(in crate::cli) fn verdict(
    described: &Described,
    container: &ContainerSpec,
    maps: &ConfigMaps,
) -> Verdict {
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
    let mut names = container.env.iter().map(|entry| &*entry.name);
    names.find_map(|name| Some((name, meant_variable(name)?)))
}

/// Returns the container of a row.
fn container<'a>(described: &'a Described, row: &Row) -> Option<&'a ContainerSpec> {
    let containers = &described.template.spec.containers;
    containers.iter().find(|each| each.name == row.container)
}

/// Returns true if the phase of the pod may be written.
fn may_finish(settings: &Settings, rows: &[Row]) -> bool {
    let only_swaps = |row: &Row| {
        let rule = row.rule.as_ref();
        rule.is_some_and(|rule| rule.method == RuleMethod::Swap)
    };
    settings.finish && !rows.iter().any(only_swaps)
}

/// Returns true if it is checked whether an exit image would end the container.
const fn is_swapped(row: &Row) -> bool {
    row.answer.executes().is_some()
}

/// Marks the sidecars for which no image is written: what they name is none, or their nodes swap
/// none.
fn unswapped(
    described: &Described,
    settings: &Settings,
    nodes: Option<(Arc<NodeRow>, Box<str>)>,
    rows: &mut [Row],
) {
    let may_finish = may_finish(settings, rows);
    let policy = described.template.spec.restart_policy.as_ref();
    let policy = policy.unwrap_or(&RestartPolicy::Never);
    let unable = nodes.filter(|(nodes, _)| {
        let bears_swap = nodes.swap_under_never == Some(true);
        let methods = AllowedMethods::default().methods(nodes.class, policy, bears_swap);
        !may_finish && !methods.contains(&Method::Swap)
    });
    for row in rows {
        let named = container(described, row).and_then(|each| each.mark.with_image.as_deref());
        match (&row.answer, named.map(ImageReference::parse), &unable) {
            (Answer::Verdict(_), Some(Err(error)), _) => {
                let why = format!("{WITH_IMAGE} is not an image ({error}): correct it");
                row.not_swapped("MarkInvalid", why, settings, may_finish);
                if may_finish {
                    row.answer = Answer::ByPhase;
                }
            }
            (_, _, Some((nodes, why))) if is_swapped(row) => {
                let provider = &nodes.provider;
                let why = format!(
                    "on nodes of {provider} ({why}), where its pods may run, no image is swapped under its restartPolicy: choose others"
                );
                row.not_swapped("NotSwappable", why, settings, false);
            }
            _ => {}
        }
    }
}

/// Marks the sidecars of which it is not certain that their exit image ends them: a kubelet's pod
/// is ended by its phase then.
fn doubted(described: &Described, settings: &Settings, rows: &mut [Row]) {
    let may_finish = may_finish(settings, rows);
    for row in rows.iter_mut().filter(|row| is_swapped(row)) {
        let container = container(described, row);
        let doubtful = container.filter(|container| is_doubtful(row, container, settings));
        if let Some(container) = doubtful {
            let remedy = if container.is_confined() {
                "let it run under a profile of the runtime (RuntimeDefault)"
            } else if container.mounts_image() {
                "mount the image volume in main containers only"
            } else {
                "give it a command that --exit-image has"
            };
            let why = format!(
                "it is not certain that its exit image starts and ends well, so it is not tried on ordinary nodes; {remedy}"
            );
            row.not_swapped("Doubtful", why, settings, may_finish);
        }
    }
}

/// Checks the headroom: under `OnFailure` each swap is a restart that the Job, or another owner,
/// counts.
fn counted(described: &Described, settings: &Settings, rows: &mut [Row]) {
    let may_finish = may_finish(settings, rows);
    let counts = |row: &&mut Row| is_swapped(row) && !row.is_ended_by_phase;
    let swapped: Vec<_> = rows.iter_mut().filter(counts).collect();
    let swaps = u32::try_from(swapped.len()).unwrap_or(u32::MAX);
    let policy = &described.template.spec.restart_policy;
    let job = described.job.as_ref().filter(|job| {
        *policy == Some(RestartPolicy::OnFailure) && !fits_alone(swaps, job.backoff_limit)
    });
    let why = match (job, &described.ruled.counted_by) {
        (Some(job), _) => format!(
            "under OnFailure its end counts as a restart, and would fail the Job; set {}.backoffLimit to at least {}",
            job.path,
            swaps.saturating_add(1)
        ),
        (None, Some(owner)) => format!(
            "a swap is a restart, and {owner}, so the swap may fail it; set restartPolicy to Never"
        ),
        (None, None) => return,
    };
    for row in swapped {
        row.not_swapped("NoHeadroom", why.clone(), settings, may_finish);
    }
}

/// Marks the sidecars whose exit image nodes may refuse to their pods: under `Never` a pod of a
/// kubelet would fail whose node does not start the image after the sidecar was stopped.
fn pulled(described: &Described, settings: &Settings, rows: &mut [Row]) {
    let may_finish = may_finish(settings, rows);
    for row in rows {
        let container = container(described, row);
        let doubt = container.and_then(|each| doubt_of_pull(described, each, row, settings));
        if let Some(why) = doubt {
            row.not_swapped("NotPublic", why, settings, may_finish);
        }
    }
}

/// Returns why a node may refuse the exit image; `None` if no swap is made, or that would not cost
/// the pod.
fn doubt_of_pull(
    described: &Described,
    container: &ContainerSpec,
    row: &Row,
    settings: &Settings,
) -> Option<String> {
    // A kubelet before 1.35 goes by the policy of the pod.
    let policies = [
        &container.restart_policy,
        &described.template.spec.restart_policy,
    ];
    if !policies.contains(&&Some(RestartPolicy::Never)) || !is_swapped(row) {
        return None;
    }
    let exit_images = settings.pulled.as_ref()?;
    let by_rule = || row.rule.as_ref()?.exit_image.as_deref();
    let own = container.mark.with_image.as_deref().or_else(by_rule);
    let default = exit_images.default_image().map(|image| image.as_str());
    let image = own.or(default)?;
    let why = exit_images.is_public(image).doubt(image)?;
    let secrets = match &*described.pull_secrets {
        [] => "the pod has no imagePullSecrets".to_owned(),
        secrets => format!(
            "its imagePullSecrets ({}) are not read, so whether they are for that registry is not known",
            secrets.join(", ")
        ),
    };
    Some(format!("{secrets}, and {why}"))
}

/// Returns true if the controller cannot know whether the exit image starts: of a listed one, such
/// as the container's own, it knows no paths, and it reads no scripts and no profiles.
fn is_doubtful(row: &Row, container: &ContainerSpec, settings: &Settings) -> bool {
    let asked = container.mark.with_image.as_deref();
    let asked = asked.or_else(|| row.rule.as_ref()?.exit_image.as_deref());
    let is_listed = |image: &str| {
        let listed = settings.exit_images.as_ref();
        let choice = listed.map(|listed| listed.choose(Some(image)));
        // The paths of the default are known.
        let is_default = ImageReference::parse(image).is_ok_and(|image| {
            let default = settings.exit_image.as_ref();
            default.is_some_and(|default| default.normalized() == image.normalized())
        });
        !is_default && choice.is_none_or(|choice| choice.is_ok_and(|choice| !choice.is_default))
    };
    let is_script = matches!(
        row.answer.executes(),
        Some(Executes::Script(_) | Executes::ReadScript { .. })
    );
    is_script
        || container.is_confined()
        || container.mounts_image()
        || (row.has_command && asked.is_some_and(is_listed))
}

/// Returns true if the pods of a template are expected to end. Of those that are to run forever,
/// containers may have other restart policies, and then end; but swaplet leaves such pods alone.
pub(super) fn may_end(template: &PodTemplate) -> bool {
    template.spec.restart_policy != Some(RestartPolicy::Always)
}

fn row(described: &Described, container: &ContainerSpec, answer: Answer, maps: &ConfigMaps) -> Row {
    let template = &described.template;
    Row {
        file: None,
        made_by: None,
        line: None,
        namespace: template.namespace.clone(),
        kind: template.kind.clone(),
        name: template.name.clone(),
        place: template.place.clone(),
        by: By::of(described, container),
        rule: described.ruled.rule(&container.name).cloned(),
        container: container.name.clone(),
        has_command: container.command.is_some(),
        is_marked: template.is_sidecar(container, &[]),
        on_virtual_node: false,
        is_ended_by_phase: false,
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
    let namespace = described.template.namespace.as_deref().unwrap_or_default();
    if CLOSED.contains(&namespace) && !matches!(answer, Answer::Native | Answer::NotAJob) {
        warnings.push(format!(
            "the admission policies of swaplet let nothing be written to pods in {namespace}"
        ));
    }
    if let Some(Executes::Script(path)) = answer.executes() {
        warnings.push(assumed(described, container, path, maps));
    }
    if let Answer::Verdict(Verdict::NotSwappable {
        reason: Obstacle::CommandInvalid,
        path: Some(path),
    }) = answer
        && first_line(described, container, path, maps).is_some()
    {
        warnings.push(format!(
            "the first line of {path} is not #! and the path of a program, so nothing can execute it"
        ));
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
        notes.extend(container.mark.problem.as_ref().map(mark_problem));
    }
    if *answer == Answer::Native && container.mark.is_sidecar() {
        notes.push("the marking variable has no effect here, and none is needed".to_owned());
    }
    notes
}
