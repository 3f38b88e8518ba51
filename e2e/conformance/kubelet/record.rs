//! What is seen of a pod, without what depends on time; and its comparison.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::case::Case;
use crate::shared::compare::{Difference, differences};

/// The lives of a container by restart count: image, and how it ended.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    lives: BTreeMap<i64, (String, String)>,
    /// What it does now, as far as it is not in its lives.
    now: &'static str,
}

/// What was seen of a pod so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    containers: BTreeMap<String, Seen>,
    phase: String,
    /// A pod that was over was seen not to be.
    came_back: bool,
    gone: bool,
    codes: Vec<u16>,
}

impl Record {
    /// Takes over a state; whether anything is new.
    pub fn saw(&mut self, pod: &Value) -> bool {
        let before = self.clone();
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        self.came_back |= self.has_ended() && phase != self.phase;
        phase.clone_into(&mut self.phase);
        for status in pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let name = status["name"].as_str().unwrap_or_default().to_owned();
            self.containers.entry(name).or_default().saw(status);
        }
        *self != before
    }

    pub fn went(&mut self) -> bool {
        self.gone = true;
        true
    }

    pub fn acted(&mut self, code: u16) {
        self.codes.push(code);
    }

    pub fn is_gone(&self) -> bool {
        self.gone
    }

    fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    pub fn value(&self) -> Value {
        let containers: serde_json::Map<_, _> = self
            .containers
            .iter()
            .map(|(name, seen)| (name.clone(), seen.value()))
            .collect();
        json!({"containers": containers, "phase": self.phase, "came back": self.came_back, "gone": self.gone, "answers": self.codes})
    }
}

impl Seen {
    fn saw(&mut self, status: &Value) {
        let restarts = status["restartCount"].as_i64().unwrap_or(0);
        let image = short(status["image"].as_str().unwrap_or_default());
        let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
        // One that has waited for a start that never came: its end is no life more.
        let is_again = state["terminated"].is_object()
            && last["containerID"] == state["terminated"]["containerID"];
        if state["running"].is_object() {
            self.life(restarts, image, "running".to_owned());
            self.now = "running";
        } else if state["terminated"].is_object() {
            self.life(restarts, image, ended(&state["terminated"]));
            self.now = if is_again {
                "ended, which is its last state too"
            } else {
                "ended"
            };
        } else {
            self.now = waits(state["waiting"]["reason"].as_str().unwrap_or_default());
        }
        if last.is_object() && !is_again {
            // A container that waits still has the count of its last life.
            let life = if state["waiting"].is_object() {
                restarts
            } else {
                restarts - 1
            };
            let image = self
                .lives
                .get(&life)
                .map_or(String::new(), |(image, _)| image.clone());
            self.life(life, &image, ended(last));
        }
    }

    fn life(&mut self, restarts: i64, image: &str, how: String) {
        self.lives.insert(restarts, (image.to_owned(), how));
    }

    fn value(&self) -> Value {
        let life = |(restarts, (image, how)): (&i64, &(String, String))| {
            format!("{restarts}: {image} {how}")
        };
        json!({"lives": self.lives.iter().map(life).collect::<Vec<_>>(), "now": self.now})
    }
}

fn ended(state: &Value) -> String {
    format!(
        "{} {}",
        state["exitCode"],
        state["reason"].as_str().unwrap_or_default()
    )
}

/// The last part of the name. One image with several names on the node is shown under any of them,
/// and other tests give the exit image tags of their own.
fn short(image: &str) -> &str {
    let last = image.rsplit('/').next().unwrap_or_default();
    if last.starts_with("exit:") {
        "exit"
    } else {
        last
    }
}

/// Reasons that alternate are one.
fn waits(reason: &str) -> &'static str {
    match reason {
        "ErrImagePull" | "ImagePullBackOff" => "waits for its image",
        "CrashLoopBackOff" => "waits before its restart",
        _ => "waits for its start",
    }
}

/// Where the two nodes differ.
pub fn compare(case: &Case, step: usize, real: &Value, mock: &Value) -> Vec<Difference> {
    let (mut real, mut mock) = (real.clone(), mock.clone());
    for (index, container) in case.containers.iter().enumerate() {
        let name = format!("c{index}");
        if case.loops(index) {
            // How far it is depends on time, and so does what a change of its image finds: its
            // first life, or its first two.
            let lives = if container.run.is_some() { 1 } else { 2 };
            even_out(
                &mut real["containers"][&name],
                &mut mock["containers"][&name],
                lives,
            );
        }
        overlook_unseen_ends(&mut real["containers"][&name], &mock["containers"][&name]);
    }
    let difference = |(path, real, fake): (String, Value, Value)| {
        let path = path.trim_start_matches('.').to_owned();
        Difference {
            step,
            operation: case.policy.to_owned(),
            path,
            real,
            fake,
        }
    };
    differences("", &real, &mock)
        .into_iter()
        .map(difference)
        .collect()
}

fn even_out(real: &mut Value, mock: &mut Value, most: usize) {
    let numbers = |one: &Value| {
        one["lives"]
            .as_array()
            .into_iter()
            .flatten()
            .map(number)
            .collect::<Vec<_>>()
    };
    let (reals, mocks) = (numbers(real), numbers(mock));
    for one in [real, mock] {
        if let Some(lives) = one["lives"].as_array_mut() {
            // Lives of milliseconds may pass unseen; the first never does.
            lives.retain(|life| {
                number(life) == 0
                    || (reals.contains(&number(life)) && mocks.contains(&number(life)))
            });
            lives.truncate(most);
        }
        one["now"] = "anything".into();
    }
}

/// The restart count that a life begins with.
fn number(life: &Value) -> usize {
    life.as_str()
        .and_then(|life| life.split_once(':')?.0.parse().ok())
        .unwrap_or_default()
}

/// A busy kubelet may report the next life before the end of the one before: then nobody has seen
/// that end. Or it reports only the end: then nobody has seen the image.
fn overlook_unseen_ends(real: &mut Value, mock: &Value) {
    let Some(lives) = real["lives"].as_array_mut() else {
        return;
    };
    let before_last = lives.len().saturating_sub(1);
    for (life, expected) in lives
        .iter_mut()
        .zip(mock["lives"].as_array().into_iter().flatten())
    {
        let (seen, whole) = (
            life.as_str().unwrap_or_default(),
            expected.as_str().unwrap_or_default(),
        );
        let mut words = whole.splitn(3, ' ');
        let without_image = format!(
            "{}  {}",
            words.next().unwrap_or_default(),
            words.nth(1).unwrap_or_default()
        );
        if seen == without_image {
            *life = expected.clone();
        }
    }
    for (life, expected) in lives
        .iter_mut()
        .take(before_last)
        .zip(mock["lives"].as_array().into_iter().flatten())
    {
        if life.as_str().is_some_and(|life| life.ends_with(" running")) {
            *life = expected.clone();
        }
    }
}
