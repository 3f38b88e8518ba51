//! The message of a job: OpenKruise's words for how far it is, then what a user has to know
//! besides.

use super::pins::Pull;
use super::{Known, Stage};
use crate::warm::image_cache::CacheState;
use crate::warm::warming::{SLOW, Waits};

/// Since Kubernetes 1.35 a kubelet asks the registry again for a pod with other credentials than
/// the image was pulled with (KEP-2535).
const CREDENTIALS: &str = "newer kubelets check the pull secrets of each pod again, so pods need them also where the image is there";

/// Keys of `sandboxConfig` that are named, and how much of each.
const KEYS_TOLD: usize = 5;
const KEY_CHARS: usize = 100;

/// `done` of `all` are final.
pub(crate) fn message(stage: Stage, done: usize, all: usize, known: Known<'_>) -> String {
    let Known {
        spec,
        targets,
        warming,
        cached,
        trouble,
    } = known;
    let mut parts = vec![progress(stage, done, all)];
    if warming.progress().next().is_none()
        && warming.skipped().is_empty()
        && cached.nodes.is_empty()
    {
        parts.push("no node is selected, so nothing is pulled".to_owned());
    }
    if stage == Stage::Running && done < all && spec.parallelism.of(all) == 0 {
        parts.push("paused: parallelism is 0".to_owned());
    }
    let waiting = targets
        .iter()
        .filter(|target| target.pull == Pull::Waits)
        .count();
    if let Some(trouble) = trouble.filter(|_| waiting > 0) {
        parts.push(format!("{waiting} image(s) are not pulled yet, for their tags are not pinned: {trouble}; trying again"));
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
        parts.push(left_out(&spec.pods.left_out));
    }
    parts.join("; ")
}

/// What keeps nodes waiting that is not the job's own doing.
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
    let stuck = waits.first_stuck.as_ref().map(|node| {
        format!("{} node(s) have a warmer pod that was deleted and does not go away, as while its kubelet pulls: {node}", waits.stuck)
    });
    [elsewhere, kept, slow, stuck].into_iter().flatten()
}

/// Keys are told as they may be written in a terminal.
fn left_out(keys: &[Box<str>]) -> String {
    let named = keys.iter().take(KEYS_TOLD).map(|key| {
        key.chars()
            .take(KEY_CHARS)
            .flat_map(char::escape_debug)
            .collect::<String>()
    });
    let named: Vec<_> = named.collect();
    let more = if keys.len() > KEYS_TOLD {
        format!(" and {} more", keys.len() - KEYS_TOLD)
    } else {
        String::new()
    };
    format!(
        "not taken over from sandboxConfig: {}{more} (the administrator lists keys by --warm-sandbox-keys)",
        named.join(", ")
    )
}

fn progress(stage: Stage, done: usize, all: usize) -> String {
    match stage {
        Stage::Completed => "job has completed".to_owned(),
        Stage::DeadlineExceeded => "job exceeds activeDeadlineSeconds".to_owned(),
        Stage::Running if all == 0 => "job is running, no progress".to_owned(),
        // Tenths of a percent.
        Stage::Running => format!(
            "job is running, progress {}.{}%",
            done * 100 / all,
            done * 1000 / all % 10
        ),
    }
}
