//! One row per sidecar.

use swaplet_core::objects::command::{
    ContainerFacts, Executes, ExitPaths, Obstacle, Verdict, resolve,
};
use swaplet_core::objects::pod::RestartPolicy;
use swaplet_core::objects::pod::container_spec::ContainerSpec;
use swaplet_core::objects::pod::template::PodTemplate;
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, Mark, MarkProblem};

/// What is said about one container.
pub(super) struct Row {
    pub file: Option<String>,
    pub namespace: Option<Box<str>>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub place: String,
    pub container: Box<str>,
    pub answer: Answer,
    pub notes: Vec<String>,
}

/// The answer to whether the container will end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// As far as the exit image goes.
    Verdict(Verdict),
    /// The mark has no effect.
    MarkInvalid(MarkProblem),
    /// The pod has no main container.
    OnlySidecars,
    /// The kubelet ends it.
    Native,
    /// Nobody ends it, and nobody should.
    NotAJob,
}

/// The rows of a pod template. Containers named in `sidecars` count as sidecars whatever their
/// marks.
pub(super) fn of(template: &PodTemplate, sidecars: &[String], image: &dyn ExitPaths) -> Vec<Row> {
    let containers = &template.spec.containers;
    let is_sidecar = |container: &ContainerSpec| template.is_sidecar(container, sidecars);
    let only_sidecars =
        !template.injected && !containers.is_empty() && containers.iter().all(is_sidecar);
    let mut rows = Vec::new();
    for container in containers {
        let answer = match (is_sidecar(container), &container.mark.problem) {
            (true, _) if is_not_a_job(template, container) => Answer::NotAJob,
            (true, _) if only_sidecars => Answer::OnlySidecars,
            (true, _) => Answer::Verdict(resolve(
                &ContainerFacts::of(&template.spec, container),
                image,
            )),
            // Harmless: it has a meaning only beside another variable that marks.
            (
                false,
                Some(MarkProblem::NotAFlag { variable } | MarkProblem::FromReference { variable }),
            ) if *variable == IGNORE_EXIT_CODE => {
                continue;
            }
            (false, Some(problem)) => Answer::MarkInvalid(problem.clone()),
            (false, None) => continue,
        };
        rows.push(row(template, container, answer));
    }
    let native = |container| row(template, container, Answer::Native);
    rows.extend(template.spec.native_sidecars.iter().map(native));
    rows
}

/// A manifest of a Pod without a policy gets Always; templates of Jobs have to have one. A
/// container's own policy is its own matter.
fn is_not_a_job(template: &PodTemplate, container: &ContainerSpec) -> bool {
    let always = match &template.spec.restart_policy {
        Some(policy) => *policy == RestartPolicy::Always,
        None => matches!(
            &*template.kind,
            "Pod"
                | "PodTemplate"
                | "Deployment"
                | "StatefulSet"
                | "DaemonSet"
                | "ReplicaSet"
                | "CloneSet"
        ),
    };
    always
        && container
            .restart_policy
            .as_ref()
            .is_none_or(|policy| *policy == RestartPolicy::Always)
}

fn row(template: &PodTemplate, container: &ContainerSpec, answer: Answer) -> Row {
    let notes = notes(template, container, &answer);
    Row {
        file: None,
        namespace: template.namespace.clone(),
        kind: template.kind.clone(),
        name: template.name.clone(),
        place: template.place.clone(),
        container: container.name.clone(),
        answer,
        notes,
    }
}

fn notes(template: &PodTemplate, container: &ContainerSpec, answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    if let Answer::Verdict(verdict) = answer {
        notes.extend(
            ContainerFacts::of(&template.spec, container)
                .notes()
                .iter()
                .map(|note| note.text().to_owned()),
        );
        if let Verdict::Runnable {
            executes: Executes::Script(path),
        } = verdict
        {
            notes.push(format!("{path} is taken for a script of sh, bash or anything that env starts; its content was not read"));
        }
        if template.injected {
            notes.push("injected: the pods that get this container have a say too".to_owned());
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
            "names its own exit image {image}, which is taken for one of swaplet with the standard paths"
        )),
        (None, None) => None,
    }
}

fn mark_problem(problem: &MarkProblem) -> String {
    match problem {
        MarkProblem::FromReference { variable } => {
            format!("{variable} comes by valueFrom, which is not read")
        }
        MarkProblem::NotAFlag { variable } => format!("{variable} is not the text true or false"),
        MarkProblem::EmptyImage => "the exit image that it names is empty".to_owned(),
    }
}

impl Row {
    /// The same row, from this file.
    pub(super) fn from(self, file: &str) -> Self {
        Self {
            file: Some(file.to_owned()),
            ..self
        }
    }

    /// Whether nothing is left to do.
    pub(super) fn is_fine(&self) -> bool {
        matches!(
            self.answer,
            Answer::Verdict(Verdict::Runnable { .. }) | Answer::Native | Answer::NotAJob
        )
    }

    pub(super) fn could_be_native(&self) -> bool {
        matches!(self.answer, Answer::Verdict(_))
    }

    /// What a row says about a container of this owner.
    pub(super) fn identity(&self, kind: &str, name: &str) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        format!(
            "{namespace}/{kind}/{name}/{}: {:?}",
            self.container, self.answer
        )
    }

    pub(super) fn verdict(&self) -> &'static str {
        match &self.answer {
            Answer::Verdict(Verdict::Runnable { .. }) => "Runnable",
            Answer::Verdict(Verdict::NeedsImage { .. }) => "NeedsImage",
            Answer::Verdict(Verdict::NotSwappable { .. }) => "NotSwappable",
            Answer::MarkInvalid(_) => "MarkInvalid",
            Answer::OnlySidecars => "OnlySidecars",
            Answer::Native => "Native",
            Answer::NotAJob => "NotAJob",
        }
    }

    pub(super) fn executes(&self) -> Option<String> {
        match &self.answer {
            Answer::Verdict(
                Verdict::Runnable { executes } | Verdict::NeedsImage { executes, .. },
            ) => Some(executes.to_string()),
            Answer::Verdict(Verdict::NotSwappable { path, .. }) => path.clone(),
            _ => None,
        }
    }

    pub(super) fn reason(&self) -> Option<Obstacle> {
        match self.answer {
            Answer::Verdict(Verdict::NotSwappable { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    pub(super) fn paths(&self) -> &[String] {
        match &self.answer {
            Answer::Verdict(Verdict::NeedsImage { paths, .. }) => paths,
            _ => &[],
        }
    }

    /// One sentence; empty where nothing is to be done.
    pub(super) fn to_do(&self) -> String {
        match &self.answer {
            Answer::Verdict(Verdict::Runnable { .. }) | Answer::Native => String::new(),
            Answer::Verdict(Verdict::NeedsImage { paths, .. }) => {
                format!("push an exit image that has {}: {}", paths.join(", "), self.push_command())
            }
            Answer::Verdict(Verdict::NotSwappable { reason, .. }) => format!("{}; {}", reason.problem(), reason.fix()),
            Answer::MarkInvalid(problem) => format!("{}; write value: \"true\"", mark_problem(problem)),
            Answer::OnlySidecars => "leave at least one container of the pod unmarked: the pod ends with its main containers".to_owned(),
            Answer::NotAJob => "nothing ends it; if the pod is to end, set restartPolicy to Never or OnFailure".to_owned(),
        }
    }

    fn push_command(&self) -> String {
        let namespace = self
            .namespace
            .as_deref()
            .map(|namespace| format!(" -n {namespace}"))
            .unwrap_or_default();
        match &self.file {
            Some(file) => format!("swaplet exit-image push REF --for {file}"),
            None => format!(
                "kubectl get{namespace} {}/{} -o yaml | swaplet exit-image push REF --for -",
                self.kind, self.name
            ),
        }
    }
}
