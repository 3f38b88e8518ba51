//! The exit image that would end a sidecar, determined before anything is written.
//!
//! The default image has the standard paths. For a path that it lacks, an image is derived, if the
//! installation derives images. Of an image that a pod requests, and that the administrator listed,
//! nothing is known but its own program, which runs where the container has no command. Where it is
//! not certain that the image starts and ends well in this container, that is a doubt: a kubelet's
//! pod is not used to try it (`swap/plan.rs`).

use std::time::Duration;

use crate::cluster::exit_images::derived::{Derived, DerivedImages};
use crate::cluster::exit_images::{Choice, ExitImages, NoChoice};
use crate::image::Kind;
use crate::objects::command::{
    ContainerFacts, Executes, Obstacle, StandardPaths, Verdict, resolve_on,
};
use crate::objects::moment::Moment;
use crate::objects::pod::{Container, Pod, RestartPolicy, roles};
use crate::objects::values::bounds::{MESSAGE, cut};
use crate::objects::values::env::WITH_IMAGE;
use crate::report::decision::{Paths, Report};
use crate::report::reason::Reason;
use crate::report::shell_word::shell_word;
use crate::terminate::Case;
use crate::terminate::turn::may_finish;

/// The result for a sidecar before it is swapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Preflight<'a> {
    /// This image ends it.
    Image {
        /// The image that ends it.
        image: &'a str,
        /// The image that the pod requested and does not get.
        refused: Option<&'a str>,
        /// Why it is not certain that it starts and ends well in this container; `None` if it is.
        doubt: Option<String>,
    },
    /// The image that it needs is being pushed.
    Awaited(Paths),
    /// There is no image for it.
    Blocked {
        report: Report,
        /// The image that it needs.
        wants: Option<Paths>,
        /// When there may be one; `None` if unknown.
        again: Option<Moment>,
    },
}

/// Determines the exit image for a sidecar of a pod.
pub(crate) fn preflight<'a>(
    pod: &Pod,
    container: &'a Container,
    exit_images: &'a ExitImages,
) -> Preflight<'a> {
    let not_swappable = |what: &str| blocked(Reason::NotSwappable, container, what);
    if *container.effective_policy(pod) == RestartPolicy::Always {
        let what = refusal(Obstacle::RestartsAlways, None);
        return blocked(Reason::SidecarRestartsAlways, container, &what);
    }
    if let Some(by) = roles::may_restart_all(pod) {
        return not_swappable(&restarts_all(container, by));
    }
    let choice = match exit_images.choose(container.exit_image_asked()) {
        Ok(choice) => choice,
        Err(why) => return no_choice(container, &why),
    };
    // Facts are kept for every container that is marked.
    let Some(facts) = container.facts.as_deref() else {
        return not_swappable(&refusal(Obstacle::CommandUnknown, None));
    };
    let image = |doubt| Preflight::Image {
        image: choice.image,
        refused: choice.refused,
        doubt,
    };
    match verdict(pod, facts, &choice, exit_images) {
        Verdict::Runnable { executes } => image(doubt(&choice, facts, &executes)),
        Verdict::NeedsImage { executes, .. } if !choice.is_default => {
            image(Some(unknown(&choice, executes.path())))
        }
        Verdict::NotSwappable { reason, path }
            if !choice.is_default && reason.is_about_our_image() =>
        {
            let path = path.as_deref().unwrap_or("its command");
            image(Some(unknown(&choice, path)))
        }
        Verdict::NotSwappable { reason, path } => not_swappable(&refusal(reason, path.as_deref())),
        Verdict::NeedsImage { executes, .. } => {
            let doubt = doubt(&choice, facts, &executes);
            derived(pod, container, facts, &choice, doubt, exit_images)
        }
    }
}

/// Describes that the end of a container may restart all others.
fn restarts_all(container: &Container, by: &str) -> String {
    let obstacle = Obstacle::RestartsAllContainers;
    if *by == *container.name {
        return refusal(obstacle, None);
    }
    format!(
        "it would be missing when {by} ends, whose restartPolicyRules may restart all containers of the pod: {}",
        obstacle.fix()
    )
}

fn verdict(
    pod: &Pod,
    facts: &ContainerFacts,
    choice: &Choice<'_>,
    exit_images: &ExitImages,
) -> Verdict {
    match exit_images.default_paths().filter(|_| choice.is_default) {
        Some(paths) => resolve_on(pod.node_runs_on, facts, paths),
        None => resolve_on(pod.node_runs_on, facts, &StandardPaths),
    }
}

/// Returns why it is not certain that the image starts and ends well: of a listed one only its own
/// program is known, a file that was not read may be no script, a profile of the cluster's own may
/// allow the sidecar's program alone, and a node that cannot pull the image of a volume starts none.
fn doubt(choice: &Choice<'_>, facts: &ContainerFacts, executes: &Executes) -> Option<String> {
    if facts.is_confined() {
        return Some(
            "whether its own seccomp or AppArmor profile lets the exit image start and exit is not known"
                .to_owned(),
        );
    }
    if facts.mounts_image() {
        return Some(
            "whether the node can pull the image of the volume that it mounts, without which it starts nothing, is not known"
                .to_owned(),
        );
    }
    match executes {
        Executes::Script(path) => Some(format!(
            "{path} is a file of a ConfigMap or Secret, which is not read: whether the exit image has its interpreter is not known"
        )),
        Executes::Program(_) | Executes::ReadScript { .. }
            if choice.is_default || facts.is_without_command() =>
        {
            None
        }
        Executes::Program(path) | Executes::ReadScript { path, .. } => Some(unknown(choice, path)),
    }
}

fn unknown(choice: &Choice<'_>, path: &str) -> String {
    format!(
        "whether {}, which is on the list of --exit-images, can run {path} in this container is not known",
        choice.image
    )
}

/// Returns why the node, which may be a kubelet, may not start this image in the container, which
/// would cost the pod: it may refuse it, and the pod would be judged by the sidecar's own exit code,
/// or nothing says what it runs, as a kubelet does.
pub(crate) fn uncertain(case: Case<'_>, container: &Container, image: &str) -> Option<Report> {
    let (pod, around) = (case.pod, case.around);
    if !around.may_be_kubelet() {
        return None;
    }
    let runs_on = container.facts.as_deref().map(|facts| facts.runs_on);
    let is_known = pod.node_runs_on.or(runs_on.unwrap_or_default()).is_known();
    let must_be_known = around.node.is_kubelet() || may_finish(pod, case.memory, around.allowed);
    if must_be_known && !is_known {
        let what = if around.node.is_kubelet() {
            "neither its node nor the pod says on which operating system and processor it runs, and the exit image is not for all of them: give the node the labels kubernetes.io/os and kubernetes.io/arch"
        } else {
            "its node is not known, and the pod does not say on which operating system and processor it runs: let nodes be listed (ClusterRole swaplet-nodes), or name both in the pod's nodeSelector"
        };
        return Some(report(Reason::NotSwappable, container, what));
    }
    let doubt = || around.exit_images.is_public(image).doubt(image);
    let doubt = container.may_be_under_never(pod).then(doubt)??;
    Some(report(Reason::ExitImageNotPublic, container, &doubt))
}

/// Looks up a derived image. It has the standard paths and those that are missing there, whatever
/// the default image has.
fn derived<'a>(
    pod: &Pod,
    container: &Container,
    facts: &ContainerFacts,
    choice: &Choice<'a>,
    doubt: Option<String>,
    exit_images: &'a ExitImages,
) -> Preflight<'a> {
    let paths = paths(resolve_on(pod.node_runs_on, facts, &StandardPaths));
    let (why, again, comes) = match exit_images
        .derived()
        .map(|images| images.find(&pod.namespace, &paths))
    {
        Some(Derived::Ready(image)) => {
            return Preflight::Image {
                image,
                refused: choice.refused,
                doubt,
            };
        }
        Some(Derived::Awaited) => return Preflight::Awaited(paths),
        Some(Derived::Failed(words, again)) => {
            (format!("; it could not be pushed: {words}"), again, true)
        }
        Some(Derived::TooMany) => {
            let words = "; the pods of this namespace have requested too many exit images today";
            (words.to_owned(), None, false)
        }
        None => (String::new(), None, false),
    };
    Preflight::Blocked {
        report: needs_image(container, choice.image, &paths, &why, exit_images),
        wants: comes.then_some(paths),
        again,
    }
}

/// Reports that the image that a sidecar needs was not pushed in the time for which its pod waits.
pub(crate) fn not_pushed(
    container: &Container,
    paths: &[String],
    exit_images: &ExitImages,
    waited: Duration,
) -> Report {
    let choice = exit_images.choose(container.exit_image_asked());
    let image = choice.map_or("", |choice| choice.image);
    let seconds = waited.as_secs();
    let why = format!("; it was not pushed within {seconds} s, and is still to be");
    needs_image(container, image, paths, &why, exit_images)
}

fn needs_image(
    container: &Container,
    image: &str,
    paths: &[String],
    why: &str,
    exit_images: &ExitImages,
) -> Report {
    let note = format!(
        "the exit image {image} does not have {}{why}; {}",
        paths.join(", "),
        remedy(paths, exit_images)
    );
    report(Reason::NeedsImage, container, &note)
}

fn paths(verdict: Verdict) -> Paths {
    match verdict {
        Verdict::NeedsImage { paths, .. } => paths,
        // The default has other paths, and not this one.
        Verdict::Runnable {
            executes: Executes::Program(path),
        } if path != Kind::Exit.program_path() => vec![path],
        Verdict::Runnable { .. } | Verdict::NotSwappable { .. } => Vec::new(),
    }
}

fn remedy(paths: &[String], exit_images: &ExitImages) -> String {
    let flags: String = paths
        .iter()
        .map(|path| format!(" --path {}", shell_word(path)))
        .collect();
    match exit_images.derived().map(DerivedImages::repository) {
        Some(repository) => format!("push it there: swaplet exit-image push {repository}{flags}"),
        None => format!(
            "push one that has it: swaplet exit-image push REF{flags}; then start the controller with --exit-image REF and its paths in --exit-image-paths, or with --derived-repository"
        ),
    }
}

/// Describes the obstacle and its fix.
fn refusal(obstacle: Obstacle, path: Option<&str>) -> String {
    let path = path.map(|path| format!(" ({path})")).unwrap_or_default();
    format!("{}{path}: {}", obstacle.problem(), obstacle.fix())
}

fn no_choice<'a>(container: &Container, why: &NoChoice) -> Preflight<'a> {
    let asked = container.exit_image_asked().unwrap_or_default();
    let (reason, what) = match why {
        NoChoice::Invalid(error) => (
            Reason::ExitImageInvalid,
            format!("{WITH_IMAGE} is not an image: {error}"),
        ),
        NoChoice::Missing if asked.is_empty() => (
            Reason::ExitImageMissing,
            format!(
                "no exit image is configured: start the controller with --exit-image, or name a listed image in {WITH_IMAGE}"
            ),
        ),
        NoChoice::Missing => (
            Reason::ExitImageMissing,
            format!(
                "{asked} is not on the list of --exit-images and there is no default: add it, or set --exit-image"
            ),
        ),
    };
    blocked(reason, container, &what)
}

fn blocked<'a>(reason: Reason, container: &Container, what: &str) -> Preflight<'a> {
    Preflight::Blocked {
        report: report(reason, container, what),
        wants: None,
        again: None,
    }
}

fn report(reason: Reason, container: &Container, what: &str) -> Report {
    // Text from a spec must not be able to control a terminal.
    let what: String = cut(what, MESSAGE)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    Report::new(reason, format!("container {}: {what}", container.name))
}
