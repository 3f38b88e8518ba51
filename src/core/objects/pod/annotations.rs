//! The annotations by which a pod, or its template, names its sidecars and sets when they are
//! ended.
//!
//! A value that cannot be used is reported and treated as absent; the others count.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::{Container, Pod, RuleSource, SidecarRule};
use crate::objects::values::bounds::{self, cut};
use crate::objects::values::fields::{Present, Text};

/// The annotation with the names of containers that are sidecars.
pub const SIDECARS: &str = "swaplet.io/sidecars";
/// The annotation with the delay after the end of the main containers, after which sidecars are
/// ended.
pub const DELAY: &str = "swaplet.io/delay";
/// The annotation with the order in which sidecars are ended.
pub const ORDER: &str = "swaplet.io/order";
/// The annotation with the time in which sidecars may end by themselves.
pub const WAIT_FOR_EXIT: &str = "swaplet.io/wait-for-exit";
/// The annotation whose change makes a kubelet notice a phase that swaplet writes with it. Its value
/// is the time of the write, so each write changes it.
pub const FINISHED: &str = "swaplet.io/finished";

/// The most entries of one annotation.
const MOST: usize = 32;
/// The bytes of the longest annotation: [`MOST`] names of containers with their values.
const LONGEST: usize = 4096;
/// The longest time that an annotation can set.
const LONGEST_TIME: Duration = Duration::from_secs(24 * 3600);
/// The highest number of an order; the lowest is its negative.
const MOST_ORDER: i32 = 1000;
/// The bytes of a value that are shown to recognise it.
const SHOWN: usize = 80;

/// The value of an annotation; `None` where it is absent.
type Value = Text<LONGEST>;

/// The annotations as they are written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Written {
    #[serde(rename = "swaplet.io/sidecars")]
    sidecars: Value,
    #[serde(rename = "swaplet.io/delay")]
    delay: Value,
    #[serde(rename = "swaplet.io/order")]
    order: Value,
    #[serde(rename = "swaplet.io/wait-for-exit")]
    wait_for_exit: Value,
    /// The record of parked containers, which restarts read.
    #[serde(rename = "swaplet.io/parked")]
    pub(crate) parked: Text<{ bounds::RECORD }>,
    #[serde(rename = "swaplet.io/finished")]
    finished: Present,
}

impl Written {
    fn is_absent(&self) -> bool {
        [
            &self.sidecars,
            &self.delay,
            &self.order,
            &self.wait_for_exit,
        ]
        .into_iter()
        .all(|value| value.is_none() && !value.too_long)
    }

    /// Sets the rules of the containers of a pod according to its annotations.
    pub(crate) fn apply(&self, pod: &mut Pod) {
        pod.phase_was_ours = pod.phase_was_written && self.finished.0;
        if self.is_absent() {
            return;
        }
        let mut reported = None;
        let sidecars = self.sidecars(pod, &mut reported);
        let delay = read(DELAY, &self.delay, time, &mut reported);
        let wait = read(WAIT_FOR_EXIT, &self.wait_for_exit, time, &mut reported);
        let order = read(ORDER, &self.order, order, &mut reported);
        let is_stranger = |(_, name): &(&str, Box<str>)| {
            !pod.containers.iter().any(|container| {
                container.name == *name && (container.mark.is_sidecar() || sidecars.contains(name))
            })
        };
        let mut named = names(&delay, DELAY)
            .chain(names(&wait, WAIT_FOR_EXIT))
            .chain(names(&order, ORDER));
        if let Some((annotation, name)) = named.find(is_stranger) {
            reported.get_or_insert_with(|| format!("annotation {annotation}: {} is not a sidecar of this pod: name it in {SIDECARS}, or leave it out", shown(&name)));
        }
        for container in &mut pod.containers {
            let is_named = sidecars.contains(&container.name);
            if !is_named && !container.mark.is_sidecar() {
                continue;
            }
            let mut rule = SidecarRule::of(RuleSource::Annotation);
            let says = [
                of(&delay, container).map(|delay| rule.delay = delay),
                of(&wait, container).map(|wait| rule.wait_for_exit = wait),
                of(&order, container).map(|order| rule.order = order),
            ];
            if is_named || says.iter().any(Option::is_some) {
                container.rule = Some(Arc::new(rule));
            }
        }
        pod.annotation_problem = reported.map(Box::from);
    }

    /// Returns the containers that are named as sidecars; none if they are all of the pod.
    fn sidecars(&self, pod: &Pod, reported: &mut Option<String>) -> Vec<Box<str>> {
        let form = "write names of containers, separated by commas";
        let is_name = |text: &str| match text {
            "" => Err(form.to_owned()),
            _ => Ok(()),
        };
        let named = read(SIDECARS, &self.sidecars, is_name, reported);
        let named: Vec<Box<str>> = named
            .into_iter()
            .map(|entry| entry.0.unwrap_or_default())
            .collect();
        let is_there = |name: &str| {
            pod.containers
                .iter()
                .any(|container| *container.name == *name)
        };
        if let Some(stranger) = named.iter().find(|name| !is_there(name)) {
            reported.get_or_insert_with(|| {
                format!(
                    "annotation {SIDECARS}: the pod has no container {}: name containers of spec.containers, separated by commas",
                    shown(stranger)
                )
            });
        }
        let is_main = |container: &Container| {
            !container.mark.is_sidecar() && !named.contains(&container.name)
        };
        let has_main = pod.containers.iter().any(is_main);
        if !has_main && !named.is_empty() {
            reported.get_or_insert_with(|| {
                format!(
                    "annotation {SIDECARS}: it leaves no main container, so none shows when the work is done, and it is ignored: leave out the container that does the work"
                )
            });
            return Vec::new();
        }
        named
    }
}

/// A value for one container or, if none is named, for all sidecars.
type Entry<T> = (Option<Box<str>>, T);

/// Returns the entries of an annotation; an entry that cannot be read is reported and left out.
fn read<T>(
    annotation: &str,
    value: &Value,
    read_one: impl Fn(&str) -> Result<T, String>,
    reported: &mut Option<String>,
) -> Vec<Entry<T>> {
    if value.too_long {
        reported.get_or_insert_with(|| {
            format!("annotation {annotation}: it is longer than {LONGEST} bytes, and is ignored")
        });
        return Vec::new();
    }
    let Some(text) = value.as_deref() else {
        return Vec::new();
    };
    let parts: Vec<_> = text.split(',').map(str::trim).collect();
    if parts.len() > MOST {
        reported.get_or_insert_with(|| {
            format!("annotation {annotation}: it has more than {MOST} entries, and is ignored")
        });
        return Vec::new();
    }
    let mut entries = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) if annotation != SIDECARS => (Some(name.trim()), value.trim()),
            _ if annotation == SIDECARS => (Some(part), part),
            _ => (None, part),
        };
        match read_one(value) {
            Ok(value) => entries.push((name.map(Box::from), value)),
            Err(form) => {
                reported.get_or_insert_with(|| {
                    format!(
                        "annotation {annotation}: {} cannot be read, and is ignored: {form}",
                        shown(part)
                    )
                });
            }
        }
    }
    entries
}

fn names<'a, T>(
    entries: &'a [Entry<T>],
    annotation: &'static str,
) -> impl Iterator<Item = (&'static str, Box<str>)> + use<'a, T> {
    entries
        .iter()
        .filter_map(move |(name, _)| Some((annotation, name.clone()?)))
}

/// Returns the value for a container: one set by its name outranks one set for all.
fn of<T: Copy>(entries: &[Entry<T>], container: &Container) -> Option<T> {
    let by_name = entries
        .iter()
        .find(|(name, _)| name.as_ref() == Some(&container.name));
    let of_all = || entries.iter().find(|(name, _)| name.is_none());
    by_name.or_else(of_all).map(|(_, value)| *value)
}

fn order(text: &str) -> Result<i32, String> {
    text.parse()
        .ok()
        .filter(|order| (-MOST_ORDER..=MOST_ORDER).contains(order))
        .ok_or_else(|| {
            format!("write a number from -{MOST_ORDER} to {MOST_ORDER} for each container, such as log=0,istio-proxy=1")
        })
}

/// Reads a time such as `5`, `5s`, `2m` or `1h`, of at most a day.
fn time(text: &str) -> Result<Duration, String> {
    written_time(text).ok_or_else(|| {
        "write a time of at most 24h, such as 5s or 2m, or one for each container, such as log=5s,istio-proxy=10s".to_owned()
    })
}

fn written_time(text: &str) -> Option<Duration> {
    let (number, unit) = match text.as_bytes().last()? {
        b's' => (&text[..text.len() - 1], 1),
        b'm' => (&text[..text.len() - 1], 60),
        b'h' => (&text[..text.len() - 1], 3600),
        _ => (text, 1),
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = number.parse::<u64>().ok().filter(|_| is_number)?;
    let time = Duration::from_secs(seconds.checked_mul(unit)?);
    (time <= LONGEST_TIME).then_some(time)
}

/// Quotes and cuts a tenant's text for a note.
fn shown(text: &str) -> String {
    format!("{:?}", cut(text, SHOWN))
}
