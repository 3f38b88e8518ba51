//! Pods and what is done to them, made at random.

use std::fmt::{self, Display};

use crate::shared::random::Random;

/// What a container does. The mock reads it as words, the real node runs it as a script.
#[derive(Clone, Debug)]
pub struct Container {
    /// Seconds until it ends by itself.
    pub run: Option<u32>,
    pub exit: i32,
    /// Its exit code after SIGTERM; none: it ignores it.
    pub term: Option<i32>,
    /// When its image is pulled.
    pub pulled: &'static str,
}

impl Container {
    fn new(random: &mut Random) -> Self {
        let run = random.pick(&[None, None, Some(1), Some(2), Some(3)]);
        Self {
            run,
            exit: random.pick(&[0, 0, 1, 3]),
            term: random.pick(&[Some(0), Some(143), Some(143), Some(7), None]),
            pulled: random.pick(&["IfNotPresent", "IfNotPresent", "Always"]),
        }
    }

    pub fn words(&self) -> Vec<String> {
        let run = self
            .run
            .map_or_else(|| "run=forever".to_owned(), |run| format!("run={run}s"));
        let term = self
            .term
            .map_or_else(|| "term=ignore".to_owned(), |code| format!("term={code}"));
        vec![run, format!("exit={}", self.exit), term]
    }

    pub fn script(&self) -> String {
        let trap = self.term.map_or_else(
            || "trap '' TERM".to_owned(),
            |code| format!("trap 'exit {code}' TERM"),
        );
        match self.run {
            // In the background, so that the shell hears the signal at once.
            Some(run) => format!("{trap}; sleep {run} & wait $!; exit {}", self.exit),
            None => format!("{trap}; while true; do sleep 1000 & wait $!; done"),
        }
    }
}

/// Images by their place in [`super::Place::images`]; the first is what each container begins with.
pub const OTHER: usize = 1;
pub const EXIT: usize = 2;
pub const MISSING: usize = 3;
/// The same bytes as the first, by their digest, under a tag that no registry has.
pub const ALIASES: [usize; 2] = [4, 5];
/// One that its registry gives to pods with the Secret [`RIGHT`] alone.
pub const PRIVATE: usize = 6;
pub const IMAGES: usize = 7;

/// The Secret with the password of the registry of [`PRIVATE`], and one with another password.
pub const RIGHT: &str = "right";
pub const WRONG: &str = "wrong";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Another image for a container.
    Swap {
        container: usize,
        image: usize,
    },
    Delete,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub policy: &'static str,
    pub containers: Vec<Container>,
    /// The pull secret of the pod.
    pub secret: Option<&'static str>,
    /// Each comes when the pod has come to rest.
    pub actions: Vec<Action>,
}

impl Case {
    pub fn new(random: &mut Random) -> Self {
        let policy = random.pick(&["Never", "OnFailure", "Always"]);
        let count = random.weighted(&[(20, 1), (60, 2), (20, 3)]);
        let containers: Vec<_> = (0..count).map(|_| Container::new(random)).collect();
        let actions = (0..random.weighted(&[(10, 0), (30, 1), (25, 2), (20, 4), (15, 6)]))
            .map(|_| action(random, count))
            .collect();
        let secret = random.pick(&[None, Some(RIGHT), Some(RIGHT), Some(WRONG)]);
        let mut case = Self {
            policy,
            containers,
            secret,
            actions,
        };
        case.settle_ends();
        case
    }

    /// A change of its image, or a deletion, meets a container that starts again and again while it
    /// runs or while it waits: if only one of them ended it well, the phase of the pod would depend
    /// on the moment.
    fn settle_ends(&mut self) {
        for index in 0..self.containers.len() {
            let loops = self.loops(index);
            let one = &mut self.containers[index];
            if loops && one.run.is_some() && (one.exit == 0) != (one.term == Some(0)) {
                one.term = Some(if one.exit == 0 { 0 } else { 143 });
            }
        }
    }

    /// Without one of its actions or containers.
    pub fn smaller(&self) -> Vec<Self> {
        let without_action = |index: usize| {
            let mut fewer = self.clone();
            fewer.actions.remove(index);
            fewer
        };
        (0..self.actions.len())
            .rev()
            .map(without_action)
            .chain(self.without_last_container())
            .collect()
    }

    fn without_last_container(&self) -> Option<Self> {
        let last = self.containers.len() - 1;
        let is_used = self
            .actions
            .iter()
            .any(|action| matches!(action, Action::Swap { container, .. } if *container == last));
        (last > 0 && !is_used).then(|| Self {
            containers: self.containers[..last].to_vec(),
            ..self.clone()
        })
    }

    /// Whether a container may start again and again: how often depends on time.
    pub fn loops(&self, container: usize) -> bool {
        let one = &self.containers[container];
        let exits = self.actions.contains(&Action::Swap {
            container,
            image: EXIT,
        });
        match self.policy {
            "Always" => one.run.is_some() || exits,
            "OnFailure" => one.run.is_some() && one.exit != 0,
            _ => false,
        }
    }
}

fn action(random: &mut Random, count: usize) -> Action {
    let container = random.below(count);
    match random.below(100) {
        0..30 => Action::Swap {
            container,
            image: EXIT,
        },
        30..45 => Action::Swap {
            container,
            image: OTHER,
        },
        45..57 => Action::Swap {
            container,
            image: 0,
        },
        57..80 => Action::Swap {
            container,
            image: random.pick(&ALIASES),
        },
        80..88 => Action::Swap {
            container,
            image: PRIVATE,
        },
        88..95 => Action::Swap {
            container,
            image: MISSING,
        },
        _ => Action::Delete,
    }
}

impl Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "  {} {:?}", self.policy, self.secret)?;
        self.containers
            .iter()
            .enumerate()
            .try_for_each(|(index, one)| {
                writeln!(out, "  c{index} {} {}", one.words().join(" "), one.pulled)
            })?;
        self.actions
            .iter()
            .try_for_each(|action| writeln!(out, "  {action:?}"))
    }
}
