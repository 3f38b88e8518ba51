//! The report has one row per sidecar.

use std::sync::Arc;

use serde::Serialize;
use swaplet_core::check::around::Described;
use swaplet_core::objects::command::{Executes, Obstacle, Verdict};
use swaplet_core::objects::pod::SidecarRule;
use swaplet_core::objects::pod::container_spec::ContainerSpec;
use swaplet_core::objects::values::env::MarkProblem;
use swaplet_core::report::shell_word::shell_word;

use super::{Settings, words};
use crate::cli::manifests::Document;

/// The verdict on one container.
pub(super) struct Row {
    pub file: Option<String>,
    /// The command that makes it of that folder, if kustomize made it.
    pub made_by: Option<&'static str>,
    /// The line of the file that names it.
    pub line: Option<usize>,
    pub namespace: Option<Box<str>>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub place: String,
    pub container: Box<str>,
    /// What makes it a sidecar.
    pub by: By,
    /// The annotation or policy rule about it.
    pub rule: Option<Arc<SidecarRule>>,
    pub answer: Answer,
    /// True if the container has a command; else the entrypoint of its image is executed.
    pub has_command: bool,
    /// True if it is a sidecar for `swaplet exit-image push --for` as well, which knows no rules.
    pub is_marked: bool,
    /// True if its pods are directed to nodes where no kubelet would run a native sidecar.
    pub on_virtual_node: bool,
    /// True if the phase of the pod ends it, because a swap would be in doubt.
    pub is_ended_by_phase: bool,
    /// The warnings, for everybody.
    pub warnings: Vec<String>,
    /// The notes, which change nothing.
    pub notes: Vec<String>,
}

/// What makes a container a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    /// Its environment variable, or a misspelt one.
    Variable,
    Annotation,
    Policy,
    /// The flag `--preset`.
    Preset,
    /// The flag `--sidecar`.
    Flag,
    /// The injector that adds it.
    Injector,
    /// Its place: an init container that always restarts.
    Native,
}

impl By {
    pub(super) fn of(described: &Described, container: &ContainerSpec) -> Self {
        let template = &described.template;
        let is_native = |native: &ContainerSpec| native.name == container.name;
        if template.spec.native_sidecars.iter().any(is_native) {
            return Self::Native;
        }
        if container.mark.is_sidecar() {
            return Self::Variable;
        }
        let refused = described.ruled.refused.as_ref();
        match described.ruled.rule(&container.name).or(refused) {
            Some(rule) if words::preset(rule).is_some() => Self::Preset,
            Some(rule) if rule.policy().is_some() => Self::Policy,
            Some(_) => Self::Annotation,
            None if template.injected => Self::Injector,
            None if container.mark.problem.is_some() => Self::Variable,
            None => Self::Flag,
        }
    }
}

/// The answer to whether the container will end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The verdict on a swap to the exit image.
    Verdict(Verdict),
    /// The mark has no effect.
    MarkInvalid(MarkProblem),
    /// The name of the marking variable is misspelt.
    Misspelt {
        written: Box<str>,
        meant: &'static str,
    },
    /// The end of the container of this name may restart all containers of the pod.
    RestartsAll(Box<str>),
    /// No image is swapped for it, and nothing else may end it.
    NoSwap {
        verdict: &'static str,
        /// Why, and the fix.
        why: String,
        /// True if the phase may be written, but not where a rule of the pod says Swap.
        is_allowed: bool,
    },
    /// The pod has no main container.
    OnlySidecars,
    /// A policy of this name matches it, and is refused, because no main container would be left.
    PolicyRefused(String),
    /// Its rule makes swaplet write the phase of the pod.
    ByPhase,
    /// Its rule neither ends it nor waits for it.
    LeftAlone,
    /// The kubelet ends it.
    Native,
    /// Nobody ends it, and nobody should.
    NotAJob,
}

impl Answer {
    /// Returns what an exit image would execute to end it; `None` if none is swapped for it.
    pub(super) const fn executes(&self) -> Option<&Executes> {
        match self {
            Self::Verdict(
                Verdict::Runnable { executes } | Verdict::NeedsImage { executes, .. },
            ) => Some(executes),
            _ => None,
        }
    }
}

/// The advice about a sidecar.
pub(super) struct ToDo {
    /// One sentence; empty if nothing is to be done.
    pub text: String,
    pub command: Option<String>,
}

impl ToDo {
    /// Returns the sentence with the command.
    pub(super) fn whole(&self) -> String {
        match &self.command {
            Some(command) => format!("{}: {command}", self.text),
            None => self.text.clone(),
        }
    }
}

pub(super) fn mark_problem(problem: &MarkProblem) -> String {
    match problem {
        MarkProblem::FromReference { variable } => {
            format!("{variable} is set by valueFrom, which is not read")
        }
        MarkProblem::NotAFlag { variable } => format!("{variable} is not the text true or false"),
        MarkProblem::EmptyImage => "the exit image that it names is empty".to_owned(),
    }
}

impl Row {
    /// Returns the row with its place in this document.
    pub(super) fn from(self, document: &Document) -> Self {
        Self {
            file: Some(document.place()),
            made_by: document.made.as_ref().map(|made| made.by),
            line: document.line_of(&self.container),
            ..self
        }
    }

    /// Notes that no image is swapped for it, because of `why`: its pod is ended by the phase, if that
    /// `may_finish` it.
    pub(super) fn not_swapped(
        &mut self,
        verdict: &'static str,
        why: String,
        settings: &Settings,
        may_finish: bool,
    ) {
        self.is_ended_by_phase = may_finish;
        if may_finish {
            self.warnings.push(format!(
                "{why}; until then the phase of the pod is written instead"
            ));
        } else {
            self.answer = Answer::NoSwap {
                verdict,
                why,
                is_allowed: settings.finish,
            };
        }
    }

    /// Returns true if nothing is left to do.
    pub(super) fn is_fine(&self) -> bool {
        matches!(
            self.answer,
            Answer::Verdict(Verdict::Runnable { .. })
                | Answer::ByPhase
                | Answer::LeftAlone
                | Answer::Native
                | Answer::NotAJob
        )
    }

    /// Returns true if the kubelet could end it without a swap.
    pub(super) fn could_be_native(&self) -> bool {
        !self.on_virtual_node
            && (self.answer.executes().is_some() || matches!(self.answer, Answer::NoSwap { .. }))
    }

    /// Returns a key of the verdict on a container of this owner.
    pub(super) fn identity(&self, kind: &str, name: &str) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        format!(
            "{namespace}/{kind}/{name}/{}: {:?} {:?}",
            self.container, self.answer, self.rule
        )
    }

    pub(super) fn verdict(&self) -> &'static str {
        match &self.answer {
            Answer::Verdict(Verdict::Runnable { .. }) => "Runnable",
            Answer::Verdict(Verdict::NeedsImage { .. }) => "NeedsImage",
            Answer::Verdict(Verdict::NotSwappable { .. }) | Answer::RestartsAll(_) => {
                "NotSwappable"
            }
            Answer::MarkInvalid(_) | Answer::Misspelt { .. } => "MarkInvalid",
            Answer::NoSwap { verdict, .. } => verdict,
            Answer::OnlySidecars | Answer::PolicyRefused(_) => "OnlySidecars",
            Answer::ByPhase => "ByPhase",
            Answer::LeftAlone => "LeftAlone",
            Answer::Native => "Native",
            Answer::NotAJob => "NotAJob",
        }
    }

    pub(super) fn executes(&self) -> Option<String> {
        match &self.answer {
            Answer::Verdict(Verdict::NotSwappable { path, .. }) => path.clone(),
            answer => answer.executes().map(ToString::to_string),
        }
    }

    pub(super) fn reason(&self) -> Option<Obstacle> {
        match self.answer {
            Answer::Verdict(Verdict::NotSwappable { reason, .. }) => Some(reason),
            Answer::RestartsAll(_) => Some(Obstacle::RestartsAllContainers),
            _ => None,
        }
    }

    pub(super) fn paths(&self) -> &[String] {
        match &self.answer {
            Answer::Verdict(Verdict::NeedsImage { paths, .. }) => paths,
            _ => &[],
        }
    }

    /// Returns the advice about it.
    pub(super) fn to_do(&self) -> ToDo {
        let text = match &self.answer {
            Answer::Verdict(Verdict::Runnable { .. }) | Answer::ByPhase | Answer::Native => {
                String::new()
            }
            Answer::LeftAlone => {
                "method Leave: swaplet neither ends it nor waits for it".to_owned()
            }
            Answer::PolicyRefused(policy) => format!(
                "{policy} does not count here, because it would leave no main container: narrow it by name, image or podSelector"
            ),
            Answer::Verdict(Verdict::NeedsImage { paths, .. }) => {
                format!("push an exit image that has {}", paths.join(", "))
            }
            Answer::Verdict(Verdict::NotSwappable { reason, .. }) => {
                format!("{}; {}", reason.problem(), reason.fix())
            }
            Answer::RestartsAll(by) => format!(
                "it would be missing when {by} ends, whose restartPolicyRules may restart all containers of the pod; {}",
                Obstacle::RestartsAllContainers.fix()
            ),
            Answer::MarkInvalid(problem) => {
                format!("{}; write value: \"true\"", mark_problem(problem))
            }
            Answer::Misspelt { written, meant } => {
                format!("the variable {written} means nothing; write {meant}")
            }
            Answer::NoSwap {
                why, is_allowed, ..
            } => match is_allowed {
                true => format!("{why}, or let no rule of the pod have method Swap"),
                false => format!("{why}, or start the controller without --finish=never"),
            },
            Answer::OnlySidecars => {
                "leave at least one container of the pod unmarked: the pod ends with its main containers".to_owned()
            }
            Answer::NotAJob => {
                "nothing ends it; if the pod is to end, set restartPolicy to Never or OnFailure".to_owned()
            }
        };
        let needs_image = matches!(self.answer, Answer::Verdict(Verdict::NeedsImage { .. }));
        ToDo {
            text,
            command: needs_image.then(|| self.push_command()),
        }
    }

    fn push_command(&self) -> String {
        let namespace = self
            .namespace
            .as_deref()
            .map(|namespace| format!(" -n {}", shell_word(namespace)))
            .unwrap_or_default();
        let sidecar = match self.is_marked {
            true => String::new(),
            false => format!(" --sidecar {}", shell_word(&self.container)),
        };
        match (&self.file, self.made_by) {
            (Some(folder), Some(program)) => format!(
                "{program} {} | swaplet exit-image push REF --for -{sidecar}",
                file_word(folder)
            ),
            (Some(file), None) => format!(
                "swaplet exit-image push REF --for {}{sidecar}",
                file_word(file)
            ),
            (None, _) => format!(
                "kubectl get{namespace} {} -o yaml | swaplet exit-image push REF --for -{sidecar}",
                shell_word(&format!("{}/{}", self.kind, self.name))
            ),
        }
    }
}

/// Returns a file as a word of a command, `-` as it is: standard input. The name of another one
/// could be read as a flag.
fn file_word(file: &str) -> String {
    if file.starts_with('-') && file != "-" {
        shell_word(&format!("./{file}"))
    } else {
        shell_word(file)
    }
}

#[cfg(test)]
mod tests {
    use super::file_word;

    #[test]
    fn a_file_is_no_flag_and_no_command() {
        for (file, word) in [
            ("-", "-"),
            ("a/-b.yaml", "a/-b.yaml"),
            ("--force", "./--force"),
            ("-a b.yaml", "'./-a b.yaml'"),
            ("a;reboot", "'a;reboot'"),
        ] {
            assert_eq!(file_word(file), word);
        }
    }
}
