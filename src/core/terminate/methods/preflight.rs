//! The exit image that would end a sidecar, determined before anything is written.
//!
//! The default image has the standard paths. For a path that it lacks, an image is derived, if the
//! installation derives images. An image that a pod requests, and that the administrator listed, is
//! trusted: its paths are unknown, so only an obstacle that no image can remove keeps it from being
//! written. Whether it starts shows when it does.

use std::time::Duration;

use crate::cluster::exit_images::derived::Derived;
use crate::cluster::exit_images::started::Start;
use crate::cluster::exit_images::{Choice, ExitImages, NoChoice};
use crate::image::Kind;
use crate::objects::command::{
    ContainerFacts, Executes, Obstacle, StandardPaths, Verdict, resolve,
};
use crate::objects::moment::Moment;
use crate::objects::pod::{Container, Pod, RestartPolicy, roles};
use crate::objects::values::bounds::{MESSAGE, cut};
use crate::objects::values::env::WITH_IMAGE;
use crate::report::decision::{Paths, Report};
use crate::report::reason::Reason;
use crate::report::shell_word::shell_word;

/// The result for a sidecar before it is swapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Preflight<'a> {
    /// This image ends it.
    Image {
        /// The image that ends it.
        image: &'a str,
        /// The image that the pod requested and does not get.
        refused: Option<&'a str>,
        /// The start, if nobody can tell whether it works: the image is listed, or the program is
        /// assumed to be a script. `None` also once it has worked.
        doubt: Option<Start>,
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
    if *container.effective_policy(pod) == RestartPolicy::Always {
        return blocked(
            Reason::SidecarRestartsAlways,
            container,
            &refusal(Obstacle::RestartsAlways, None),
        );
    }
    if let Some(by) = roles::may_restart_all(pod) {
        return blocked(
            Reason::NotSwappable,
            container,
            &restarts_all(container, by),
        );
    }
    let choice = match exit_images.choose(container.exit_image_asked()) {
        Ok(choice) => choice,
        Err(why) => return no_choice(container, &why),
    };
    // Facts are kept for every container that is marked.
    let Some(facts) = container.facts.as_deref() else {
        return blocked(
            Reason::NotSwappable,
            container,
            &refusal(Obstacle::CommandUnknown, None),
        );
    };
    let image = |assumed| Preflight::Image {
        image: choice.image,
        refused: choice.refused,
        doubt: doubt(pod, container, choice.image, assumed, exit_images),
    };
    match verdict(facts, &choice, exit_images) {
        Verdict::Runnable { executes } => image(assumed(&executes, &choice)),
        Verdict::NeedsImage { executes, .. } if !choice.is_default => {
            image(assumed(&executes, &choice))
        }
        Verdict::NotSwappable { reason, path }
            if !choice.is_default && reason.is_about_our_image() =>
        {
            image(Some(path.unwrap_or_default()))
        }
        Verdict::NotSwappable { reason, path } => blocked(
            Reason::NotSwappable,
            container,
            &refusal(reason, path.as_deref()),
        ),
        Verdict::NeedsImage { executes, .. } => {
            let assumed = assumed(&executes, &choice);
            derived(pod, container, facts, &choice, assumed, exit_images)
        }
    }
}

/// Describes that the end of a container may restart all others.
fn restarts_all(container: &Container, by: &Container) -> String {
    let obstacle = Obstacle::RestartsAllContainers;
    if by.name == container.name {
        return refusal(obstacle, None);
    }
    format!(
        "it would be missing when {} ends, whose restartPolicyRules may restart all containers of the pod: {}",
        by.name,
        obstacle.fix()
    )
}

fn verdict(facts: &ContainerFacts, choice: &Choice<'_>, exit_images: &ExitImages) -> Verdict {
    match exit_images.default_paths().filter(|_| choice.is_default) {
        Some(paths) => resolve(facts, paths),
        None => resolve(facts, &StandardPaths),
    }
}

/// Returns the program, if nobody can tell whether it can be started: of a listed image nothing is
/// known, and a file that was not read may be no script.
fn assumed(executes: &Executes, choice: &Choice<'_>) -> Option<String> {
    let is_assumed = !choice.is_default || matches!(executes, Executes::Script(_));
    is_assumed.then(|| executes.to_string())
}

/// Returns the start of the image with this program, unless it has worked before.
fn doubt(
    pod: &Pod,
    container: &Container,
    image: &str,
    assumed: Option<String>,
    exit_images: &ExitImages,
) -> Option<Start> {
    let program = assumed?.into();
    let start = Start {
        namespace: pod.namespace.clone(),
        container: container.name.clone(),
        image: image.into(),
        program,
    };
    (!exit_images.has_started(&start)).then_some(start)
}

/// Looks up a derived image. It has the standard paths and those that are missing there, whatever
/// the default image has.
fn derived<'a>(
    pod: &Pod,
    container: &Container,
    facts: &ContainerFacts,
    choice: &Choice<'a>,
    assumed: Option<String>,
    exit_images: &'a ExitImages,
) -> Preflight<'a> {
    let paths = paths(resolve(facts, &StandardPaths));
    let (why, again, comes) = match exit_images.derived(&pod.namespace, &paths) {
        Some(Derived::Ready(image)) => {
            return Preflight::Image {
                image,
                refused: choice.refused,
                doubt: doubt(pod, container, image, assumed, exit_images),
            };
        }
        Some(Derived::Awaited) => return Preflight::Awaited(paths),
        Some(Derived::Failed(words, again)) => {
            (format!("; it could not be pushed: {words}"), again, true)
        }
        Some(Derived::TooMany) => (
            "; the pods of this namespace have requested too many exit images today".to_owned(),
            None,
            false,
        ),
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
    match exit_images.repository() {
        Some(repository) => format!("push it there: swaplet exit-image push {repository}{flags}"),
        None => format!(
            "push one that has it: swaplet exit-image push REF{flags}; then list REF in --exit-images and name it in {WITH_IMAGE}, or start the controller with --derived-repository"
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
    match why {
        NoChoice::Invalid(error) => blocked(
            Reason::ExitImageInvalid,
            container,
            &format!("{WITH_IMAGE} is not an image: {error}"),
        ),
        NoChoice::Missing if asked.is_empty() => blocked(
            Reason::ExitImageMissing,
            container,
            &format!(
                "no exit image is configured: start the controller with --exit-image, or name a listed image in {WITH_IMAGE}"
            ),
        ),
        NoChoice::Missing => blocked(
            Reason::ExitImageMissing,
            container,
            &format!(
                "{asked} is not on the list of --exit-images and there is no default: add it, or set --exit-image"
            ),
        ),
    }
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
    Report {
        reason,
        note: format!("container {}: {what}", container.name),
    }
}
