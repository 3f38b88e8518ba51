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
        for status in pod["status"]["containerStatuses"].as_array().into_iter().flatten() {
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

    /// Nothing more will happen by itself.
    pub fn is_over(&self) -> bool {
        self.gone
    }

    fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    pub fn value(&self) -> Value {
        let containers: serde_json::Map<_, _> = self.containers.iter().map(|(name, seen)| (name.clone(), seen.value())).collect();
        json!({"containers": containers, "phase": self.phase, "came back": self.came_back, "gone": self.gone, "answers": self.codes})
    }
}

impl Seen {
    fn saw(&mut self, status: &Value) {
        let restarts = status["restartCount"].as_i64().unwrap_or(0);
        let image = short(status["image"].as_str().unwrap_or_default());
        let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
        if state["running"].is_object() {
            self.life(restarts, image, "running".to_owned());
            self.now = "running";
        } else if state["terminated"].is_object() {
            self.life(restarts, image, ended(&state["terminated"]));
            self.now = "ended";
        } else {
            self.now = waits(state["waiting"]["reason"].as_str().unwrap_or_default());
        }
        if last.is_object() {
            // A container that waits still has the count of its last life.
            let life = if state["waiting"].is_object() { restarts } else { restarts - 1 };
            let image = self.lives.get(&life).map_or(String::new(), |(image, _)| image.clone());
            self.life(life, &image, ended(last));
        }
    }

    fn life(&mut self, restarts: i64, image: &str, how: String) {
        self.lives.insert(restarts, (image.to_owned(), how));
    }

    fn value(&self) -> Value {
        let life = |(restarts, (image, how)): (&i64, &(String, String))| format!("{restarts}: {image} {how}");
        json!({"lives": self.lives.iter().map(life).collect::<Vec<_>>(), "now": self.now})
    }
}

fn ended(state: &Value) -> String {
    format!("{} {}", state["exitCode"], state["reason"].as_str().unwrap_or_default())
}

/// The last part of the name. One image with several names on the node is shown under any of them, and other tests give the exit image
/// tags of their own.
fn short(image: &str) -> &str {
    let last = image.rsplit('/').next().unwrap_or_default();
    if last.starts_with("exit:") { "exit" } else { last }
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
pub fn compare(case: &Case, real: &Value, mock: &Value) -> Vec<Difference> {
    let (mut real, mut mock) = (real.clone(), mock.clone());
    for container in (0..case.containers.len()).filter(|container| case.loops(*container)) {
        let name = format!("c{container}");
        even_out(&mut real["containers"][&name], &mut mock["containers"][&name]);
    }
    let difference = |(path, real, fake): (String, Value, Value)| {
        let path = path.trim_start_matches('.').to_owned();
        Difference { step: 0, operation: case.policy.to_owned(), path, real, fake }
    };
    differences("", &real, &mock).into_iter().map(difference).collect()
}

/// Of containers that start again and again, only the lives that both have had to their end.
fn even_out(real: &mut Value, mock: &mut Value) {
    let count = |one: &Value| one["lives"].as_array().map_or(0, Vec::len);
    let both = count(real).min(count(mock)).saturating_sub(1);
    for one in [real, mock] {
        if let Some(lives) = one["lives"].as_array_mut() {
            lives.truncate(both.max(1));
        }
        one["now"] = "anything".into();
    }
}
