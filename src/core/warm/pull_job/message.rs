//! The message of a job: its progress in OpenKruise's words, followed by what else a user has to
//! know.

use super::{Known, Stage};
use crate::warm::image_cache::CacheState;
use crate::warm::pull_job::object::Targets;
use crate::warm::warming::{SLOW, Waits};

/// The note about KEP-2535: since Kubernetes 1.35 a kubelet queries the registry again for a pod
/// with other credentials than the image was pulled with.
const CREDENTIALS: &str = "newer kubelets check the pull secrets of each pod again, so pods need them also where the image is there";

/// The note about a job whose pods are not watched, because those of so many others are.
const WATCHES: &str = "waits until other jobs with a podSelector are completed or deleted, because pods are watched for 32 of a namespace at most, and for 256 in all";

/// The note about a job whose pods have not been listed.
const PODS: &str =
    "the pods that its podSelector matches are not listed, so its nodes are not known";

/// The note about a job without nodes, because those of so many others are kept.
const ROOM: &str = "waits until other jobs are completed or deleted, because the images of all jobs on all their nodes, and the pods that they select, take memory: those of a namespace half of it at most, unless one job alone takes more";

/// The note about a job whose pods on nodes that it no longer selects take up its parallelism.
const LEAVING: &str = "waits for warmer pods that are no longer needed to go away, two minutes at most once they are deleted";

/// The most keys of `sandboxConfig`, or nodes, that are named, and the most characters of each.
const WORDS_TOLD: usize = 5;
const WORD_CHARS: usize = 100;

/// Returns the message of a job of which `done` of `all` are final: nodes, or images of a list.
pub(crate) fn message(stage: Stage, done: usize, all: usize, known: Known<'_>) -> String {
    let Known {
        spec,
        warming,
        cached,
        waits_for_watch,
        waits_for_pods,
        waits_for_room,
    } = known;
    let mut parts = vec![progress(stage, done, all)];
    if waits_for_room || waits_for_watch {
        let why = if waits_for_room { ROOM } else { WATCHES };
        parts.extend((stage == Stage::Running).then(|| why.to_owned()));
    } else if let Some(why) = waits_for_pods {
        let colon = if why.is_empty() { "" } else { ": " };
        parts.push(format!("{PODS}{colon}{why}"));
    } else if warming.progress().next().is_none()
        && warming.skipped().is_empty()
        && cached.nodes.is_empty()
    {
        parts.push("no node is selected, so nothing is pulled".to_owned());
    }
    parts.extend(absent(known).filter(|_| !waits_for_room));
    if stage == Stage::Running && done < all && spec.parallelism.is_none() {
        parts.push("paused: parallelism is 0".to_owned());
    } else if stage == Stage::Running && done < all && warming.may_begin_none() {
        parts.push(LEAVING.to_owned());
    }
    if let (CacheState::Waits(why), false) = (&cached.state, cached.nodes.is_empty()) {
        parts.push(format!(
            "{} node(s) wait for an image cache: {why}",
            cached.nodes.len()
        ));
    }
    if stage == Stage::Running {
        parts.extend(waits(warming.waits()));
    }
    if let Some((node, why)) = warming.skipped().first_key_value() {
        parts.push(format!(
            "{} node(s) skipped: {node}: {why}",
            warming.skipped().len()
        ));
    }
    if !spec.pods.pull_secrets.is_empty() {
        parts.push(CREDENTIALS.to_owned());
    }
    if !spec.pods.left_out.is_empty() {
        let keys: Vec<_> = spec.pods.left_out.iter().map(|key| &**key).collect();
        parts.push(format!(
            "not taken over from sandboxConfig: {} (the administrator lists keys by --warm-sandbox-keys)",
            listed(&keys)
        ));
    }
    parts.join("; ")
}

/// Returns the note about names in the selector that are no nodes.
fn absent(known: Known<'_>) -> Option<String> {
    let Targets::Names(names) = &known.spec.targets else {
        return None;
    };
    let is_there = |name: &str| {
        known.warming.has(name)
            || known.warming.skipped().contains_key(name)
            || known.cached.nodes.contains(name)
    };
    let names = names.iter().map(|name| &**name);
    let absent: Vec<_> = names.filter(|name| !is_there(name)).collect();
    (!absent.is_empty()).then(|| format!("no such node: {}", listed(&absent)))
}

/// Returns what nodes wait for that the job itself does not cause.
fn waits(waits: &Waits) -> impl Iterator<Item = String> {
    let elsewhere = (waits.elsewhere > 0).then(|| {
        format!(
            "{} node(s) wait for pods of other jobs there",
            waits.elsewhere
        )
    });
    let kept = waits.first_kept.as_ref().map(|node| {
        format!(
            "{} node(s) wait until pods there have pulled their images: {node}",
            waits.kept
        )
    });
    let slow = waits.first_slow.as_ref().map(|(node, image)| {
        format!(
            "{} node(s) have pulled for more than {} s: {node}: {image}",
            waits.slow,
            SLOW.as_secs()
        )
    });
    let untaken = waits.first_untaken.as_ref().map(|(node, why)| {
        format!(
            "the API server does not take writes for {} node(s), trying again: {node}: {why}",
            waits.untaken
        )
    });
    let stuck = waits.first_stuck.as_ref().map(|node| {
        format!("{} node(s) have a warmer pod that is stuck in deletion, as while its kubelet pulls: {node}", waits.stuck)
    });
    [untaken, elsewhere, kept, slow, stuck]
        .into_iter()
        .flatten()
}

/// Returns the first of these words of a user, escaped so that a terminal can show them.
fn listed(words: &[&str]) -> String {
    let named = words.iter().take(WORDS_TOLD).map(|word| {
        word.chars()
            .take(WORD_CHARS)
            .flat_map(char::escape_debug)
            .collect::<String>()
    });
    let named = named.collect::<Vec<_>>().join(", ");
    match words.len().saturating_sub(WORDS_TOLD) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn progress(stage: Stage, done: usize, all: usize) -> String {
    match stage {
        Stage::Running if all == 0 => format!("{}, no progress", stage.words()),
        // Tenths of a percent.
        Stage::Running => format!(
            "{}, progress {}.{}%",
            stage.words(),
            done * 100 / all,
            done * 1000 / all % 10
        ),
        _ => stage.words().to_owned(),
    }
}
