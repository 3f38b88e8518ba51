//! The objects of a world: pods with their containers as the node has them, and Jobs.

use serde_json::{Value, json};
use swaplet_controller::terminate::index::Write;

/// The exit image of the installation.
pub const EXIT: &str = "registry.example/swaplet/exit:v1";
/// An exit image that pods ask for.
pub const LISTED: &str = "registry.example/exit/proxy:v2";
/// The time at which a world begins, in seconds.
pub const EPOCH: i64 = 1_767_225_600;

/// What a container is, by what is known of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Main,
    /// The exit image has its command.
    Plain,
    /// It asks for an exit image of its own, of which nothing is known.
    Listed,
    /// Its command is a file that nobody reads.
    Script,
    /// Its command is not in the exit image.
    NeedsImage,
    /// Its command is on a volume.
    Volume,
}

/// The state of a container.
#[derive(Clone, Debug)]
pub enum State {
    Waiting(&'static str, String),
    /// Since when.
    Running(u64),
    Ended {
        code: i32,
        reason: &'static str,
        started: u64,
        finished: u64,
    },
}

impl State {
    pub const fn ended(code: i32, started: u64, finished: u64) -> Self {
        let reason = if code == 0 { "Completed" } else { "Error" };
        Self::Ended {
            code,
            reason,
            started,
            finished,
        }
    }
}

/// A container: what its pod says, how it behaves, and its state on the node.
#[derive(Clone, Debug)]
pub struct Container {
    pub name: String,
    pub kind: Kind,
    /// Its exit code does not count.
    pub ignored: bool,
    /// The image it was created with.
    pub own_image: String,
    /// The image in the spec.
    pub image: String,
    pub order: Option<i32>,
    /// Seconds after the end of the main containers, as for `wait`.
    pub delay: Option<u64>,
    pub wait: Option<u64>,
    /// How it ends when it is told to, and after how many milliseconds.
    pub stop_code: i32,
    pub stop_ms: u64,
    /// After how many milliseconds it ends by itself once the main containers are done.
    pub ends_itself: Option<u64>,
    pub exit_starts: bool,
    pub state: State,
    /// The image of the state.
    pub run_image: String,
    pub id: u32,
    pub restarts: u32,
    /// When those of them came that no swap has caused.
    pub crashed: Vec<u64>,
    pub last_code: Option<i32>,
    /// How often an exit image was tried that did not start.
    pub attempts: u32,
    pub crashes: u32,
    pub stopping: bool,
    pub swapped_at: Option<u64>,
}

impl Container {
    pub fn new(name: &str, kind: Kind) -> Self {
        let image = format!("registry.example/app/{name}:v1");
        Self {
            name: name.to_owned(),
            kind,
            ignored: false,
            own_image: image.clone(),
            image: image.clone(),
            order: None,
            delay: None,
            wait: None,
            stop_code: 143,
            stop_ms: 100,
            ends_itself: None,
            exit_starts: true,
            state: State::Running(0),
            run_image: image,
            id: 1,
            restarts: 0,
            crashed: Vec::new(),
            last_code: None,
            attempts: 0,
            crashes: 0,
            stopping: false,
            swapped_at: None,
        }
    }

    pub fn is_sidecar(&self) -> bool {
        self.kind != Kind::Main
    }

    /// The restarts that swaps have caused.
    pub fn swaps(&self) -> u32 {
        self.restarts - u32::try_from(self.crashed.len()).unwrap()
    }

    pub const fn code(&self) -> Option<i32> {
        match self.state {
            State::Ended { code, .. } => Some(code),
            State::Waiting(..) | State::Running(_) => None,
        }
    }

    /// It has ended, and is not started again.
    pub fn is_over(&self, never: bool) -> bool {
        self.code().is_some_and(|code| never || code == 0)
    }

    /// Nobody can tell whether an exit image ends it well.
    pub const fn is_doubtful(&self) -> bool {
        matches!(self.kind, Kind::Listed | Kind::Script)
    }
}

/// What a node does with a changed image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Kubelet,
    /// A virtual node that replaces containers.
    Virtual,
}

impl Place {
    pub const fn node(self) -> &'static str {
        match self {
            Self::Kubelet => "node-1",
            Self::Virtual => "virtual-1",
        }
    }
}

/// A pod, as it is and as its object shows it.
#[derive(Clone, Debug)]
pub struct Pod {
    pub namespace: usize,
    pub name: String,
    pub uid: String,
    pub job: usize,
    pub place: Place,
    /// The restartPolicy is `Never`, else `OnFailure`.
    pub never: bool,
    /// Seconds.
    pub grace: u64,
    pub containers: Vec<Container>,
    pub pull_fails: bool,
    /// The containers in the status.
    pub shown: Vec<Container>,
    pub phase: &'static str,
    /// The phase was written by the controller.
    pub written: bool,
    pub version: u64,
    pub gone: bool,
    pub deleting: bool,
    /// The node takes it down.
    pub dead: bool,
    /// The node is stopping or starting its containers.
    pub busy: bool,
    pub publishes: bool,
    pub mains_done: Option<u64>,
    pub ended_at: Option<u64>,
    pub told: Vec<String>,
    pub annotations: Value,
    /// The writes since the object changed last.
    pub tries: Tries,
}

/// Writes to an object that does not change.
#[derive(Clone, Debug, Default)]
pub struct Tries {
    pub version: u64,
    /// How many of them came within a minute of the one before.
    pub quick: u32,
    pub last: u64,
}

impl Pod {
    pub fn new(place: usize, job: usize, containers: Vec<Container>) -> Self {
        Self {
            namespace: 0,
            name: format!("pod-{place}"),
            uid: format!("uid-{place}"),
            job,
            place: Place::Kubelet,
            never: false,
            grace: 30,
            shown: containers.clone(),
            containers,
            pull_fails: false,
            phase: "Running",
            written: false,
            version: place as u64 * 10 + 1,
            gone: false,
            deleting: false,
            dead: false,
            busy: false,
            publishes: false,
            mains_done: None,
            ended_at: None,
            told: Vec::new(),
            annotations: json!({}),
            tries: Tries::default(),
        }
    }

    pub fn mains(&self) -> impl Iterator<Item = &Container> {
        self.containers
            .iter()
            .filter(|container| !container.is_sidecar())
    }

    pub fn sidecars(&self) -> impl Iterator<Item = &Container> {
        self.containers
            .iter()
            .filter(|container| container.is_sidecar())
    }

    pub fn mains_are_over(&self) -> bool {
        self.mains().all(|main| main.is_over(self.never))
    }

    pub fn mains_succeeded(&self) -> bool {
        self.mains().all(|main| main.code() == Some(0))
    }
}

/// A Job, and what the Job controller has made of it.
#[derive(Clone, Debug)]
pub struct Job {
    pub namespace: usize,
    pub uid: String,
    pub limit: u32,
    pub failed: Option<u64>,
    pub told: Vec<String>,
}

/// A write of the controller on its way.
pub struct InFlight {
    pub write: Write,
    /// The life of the controller that made it.
    pub life: u64,
    pub outcome: Option<swaplet_controller::frame::writer::Outcome>,
    pub is_lost: bool,
}
