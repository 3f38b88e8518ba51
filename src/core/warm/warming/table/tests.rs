use proptest::prelude::*;

use super::*;
use crate::objects::pod::{ContainerState, Phase, Terminated};
use crate::report::write_error::WriteError;
use crate::warm::pod::{Reported, Shape, WarmerImage, WarmerPod};
use crate::warm::warming::node::Slots;
use crate::warm::warming::{Action, Elsewhere, Limits, Warming};

const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
const IMAGES: [&str; 3] = ["r.example/a:1", "r.example/b:1", "r.example/c:1"];
const AGAIN: Duration = Duration::from_secs(300);

/// Something that happens, in most cases to the node with this number.
#[derive(Clone, Debug)]
enum Happens {
    Passes(u64),
    Steps,
    Answers(Says),
    Pod(usize, Pod),
    Ready(usize, bool),
    IsGone(usize),
    TryAgain(usize),
    Images(usize),
    Parallelism(usize),
    GivesUp,
    Others(usize, Elsewhere),
}

#[derive(Clone, Debug)]
enum Says {
    Stored,
    Done,
    Conflict,
    Lost,
}

/// What becomes of the pod of a node.
#[derive(Clone, Debug)]
enum Pod {
    Starts,
    Runs,
    IsRefused,
    Fails,
    IsDeleted,
    IsGone,
}

fn happens() -> impl Strategy<Value = Happens> {
    let node = 0..NODES.len();
    let says = prop_oneof![
        6 => Just(Says::Stored),
        2 => Just(Says::Done),
        1 => Just(Says::Conflict),
        1 => Just(Says::Lost)
    ];
    let pod = prop_oneof![
        3 => Just(Pod::Starts),
        4 => Just(Pod::Runs),
        2 => Just(Pod::IsRefused),
        1 => Just(Pod::Fails),
        1 => Just(Pod::IsDeleted),
        3 => Just(Pod::IsGone)
    ];
    let others = any::<[bool; 3]>().prop_map(|[taken, wanted, others_pull]| Elsewhere {
        taken,
        wanted,
        others_pull,
    });
    prop_oneof![
        4 => prop_oneof![1u64..20, 100u64..700].prop_map(Happens::Passes),
        9 => Just(Happens::Steps),
        6 => says.prop_map(Happens::Answers),
        9 => (node.clone(), pod).prop_map(|(node, pod)| Happens::Pod(node, pod)),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, is)| Happens::Ready(node, is)),
        1 => node.clone().prop_map(Happens::IsGone),
        1 => node.clone().prop_map(Happens::TryAgain),
        1 => (1..=IMAGES.len()).prop_map(Happens::Images),
        1 => (0usize..5).prop_map(Happens::Parallelism),
        1 => Just(Happens::GivesUp),
        2 => (node, others).prop_map(|(node, others)| Happens::Others(node, others)),
    ]
}

/// A job, its nodes, and what was written for them.
struct World {
    warming: Warming,
    limits: Limits,
    now: Moment,
    writes: Vec<(Box<str>, Action)>,
    pods: BTreeMap<&'static str, WarmerPod>,
    others: [Elsewhere; NODES.len()],
    made: usize,
}

impl World {
    fn new() -> Self {
        let limits = Limits {
            parallelism: 2,
            timeout: Duration::from_secs(100),
            backoff_limit: 1,
            ask_again: Some(AGAIN),
        };
        let mut warming = Warming::new(IMAGES.map(Box::from).to_vec(), limits.clone());
        let shape = |index| match index {
            0 => Shape::InPlace,
            _ => Shape::ImpossibleCommand,
        };
        for (index, node) in NODES.iter().enumerate() {
            warming.add(node, shape(index), index != 1, Moment::START);
        }
        Self {
            warming,
            limits,
            now: Moment::START,
            writes: Vec::new(),
            pods: BTreeMap::new(),
            others: [Elsewhere::default(); NODES.len()],
            made: 0,
        }
    }

    fn happens(&mut self, happens: &Happens) {
        let now = self.now;
        match happens {
            Happens::Passes(seconds) => self.now += Duration::from_secs(*seconds),
            Happens::Steps => self.steps(),
            Happens::Answers(says) => self.answers(says),
            Happens::Pod(node, pod) => self.pod(NODES[*node], pod),
            Happens::Ready(node, ready) => self.warming.observe_node(NODES[*node], *ready, now),
            Happens::IsGone(node) => self.warming.node_is_gone(NODES[*node]),
            Happens::TryAgain(node) => self.warming.try_again(NODES[*node], true, now),
            Happens::Images(count) => {
                let images = IMAGES.iter().take(*count);
                self.warming
                    .set_images(images.copied().map(Box::from).collect());
            }
            Happens::Parallelism(parallelism) => {
                self.limits.parallelism = *parallelism;
                self.warming.set_limits(self.limits.clone());
            }
            Happens::GivesUp => self.warming.give_up("enough"),
            Happens::Others(node, others) => {
                self.others[*node] = *others;
                self.warming.is_free_again(NODES[*node]);
            }
        }
    }

    /// A step, in which nothing would come of the nodes that are not looked at.
    fn steps(&mut self) {
        self.assert_idle_nodes_have_nothing_to_do();
        let others = self.others;
        let actions = self.warming.step(self.now, |name| {
            let index = NODES.iter().position(|node| *node == name);
            others[index.expect("a node of the test")]
        });
        self.writes.extend(actions);
    }

    fn assert_idle_nodes_have_nothing_to_do(&mut self) {
        let (now, limits) = (self.now, self.limits.clone());
        let slots = |free| Slots {
            free,
            wanted: true,
            is_asked_for: true,
            excess: true,
            others_pull: true,
        };
        for (name, Entry { node, place }) in &mut self.warming.nodes.nodes {
            let begins_later = matches!(place, Place::Asleep(time) if *time > now);
            let free = match place {
                Place::Rests => true,
                Place::Asleep(_) => begins_later,
                Place::Waiting | Place::Taken => false,
                Place::Busy => continue,
            };
            if !node.is_broken {
                let before = format!("{node:?}");
                let action = node.step(&limits, slots(free), now);
                assert_eq!((action, format!("{node:?}")), (None, before), "{name}");
            }
        }
    }

    fn answers(&mut self, says: &Says) {
        if self.writes.is_empty() {
            return;
        }
        let (node, action) = self.writes.remove(0);
        let name = NODES
            .into_iter()
            .find(|name| **name == *node)
            .expect("a node");
        let answer = match says {
            Says::Conflict => Err(WriteError::Conflict),
            Says::Lost => Err(WriteError::Failed {
                error: String::new(),
                retry_after: None,
            }),
            Says::Stored | Says::Done => {
                self.carries_out(name, &action);
                match self.pods.get(name).filter(|_| matches!(says, Says::Stored)) {
                    Some(pod) if !matches!(action, Action::Delete { .. }) => {
                        Ok(Some(Box::new(pod.clone())))
                    }
                    _ => Ok(None),
                }
            }
        };
        self.warming.written(&node, &action, answer, self.now);
    }

    fn carries_out(&mut self, name: &'static str, action: &Action) {
        match action {
            Action::Create { shape, images, .. } => {
                self.made += 1;
                let pod = new_pod(name, self.made, *shape, images);
                self.pods.insert(name, pod);
            }
            Action::Swap { to, before, .. } => {
                if let Some(pod) = self.pods.get_mut(name) {
                    pod.generation += 1;
                    pod.before = Some(before.clone());
                    pod.images[0].wanted = to.clone();
                    pod.images[0].image = to.clone();
                }
            }
            Action::Delete { .. } => {
                self.pods
                    .get_mut(name)
                    .into_iter()
                    .for_each(|pod| pod.deleting = true);
            }
        }
    }

    /// Something becomes of the pod of a node, and is shown.
    fn pod(&mut self, name: &'static str, becomes: &Pod) {
        let Some(pod) = self.pods.get_mut(name) else {
            return;
        };
        let ended = ContainerState::Terminated(Box::new(Terminated {
            exit_code: Some(0),
            ..Terminated::default()
        }));
        match becomes {
            Pod::Starts => pod.init = ended,
            Pod::Runs => {
                self.made += 1;
                (pod.init, pod.phase) = (ended, Phase::Running);
                for image in &mut pod.images {
                    image.container = Reported {
                        image: image.image.clone(),
                        image_id: format!("sha256:{}", image.image).into(),
                        container_id: format!("c{}", self.made).into(),
                        state: ContainerState::Running { started_at: None },
                    };
                }
            }
            Pod::IsRefused => {
                pod.init = ended;
                for image in &mut pod.images {
                    image.container.state = ContainerState::Waiting {
                        reason: "ErrImagePull".into(),
                        message: "no".into(),
                    };
                }
            }
            Pod::Fails => pod.phase = Phase::Failed,
            Pod::IsDeleted => pod.deleting = true,
            Pod::IsGone => {
                let uid = pod.uid.clone();
                self.pods.remove(name);
                return self.warming.pod_is_gone(&uid, self.now);
            }
        }
        self.warming.observe_pod(pod.clone(), self.now);
    }

    /// The sets of the table are those of a look at all nodes.
    fn assert_sets_are_whole(&mut self) {
        let (now, table) = (self.now, &mut self.warming.nodes);
        let mut names: BTreeSet<Box<str>> = BTreeSet::new();
        for (name, Entry { node, place }) in &table.nodes {
            let begins_at = node.begins_at().filter(|_| !node.is_busy());
            let is_right = match place {
                Place::Busy => node.is_busy() && table.busy.contains(name),
                Place::Waiting => begins_at <= Some(table.now) && table.waiting.contains(name),
                Place::Asleep(time) => begins_at == Some(*time),
                Place::Taken => begins_at.is_some() && table.taken.contains(name),
                Place::Rests => begins_at.is_none() && !node.is_busy(),
            };
            assert!(is_right, "{name} {place:?}: {node:?}");
            assert_eq!(node.has_news(), table.with_news.contains(name));
            if *place != Place::Rests {
                names.insert(name.clone());
            }
        }
        let asleep = table.asleep.iter().map(|(_, name)| name);
        let sets = [&table.busy, &table.waiting, &table.taken];
        let all: Vec<_> = sets.into_iter().flatten().chain(asleep).cloned().collect();
        assert_eq!((all.len(), all.into_iter().collect()), (names.len(), names));
        let is_due = |node: &NodeProgress| node.is_settled() && now >= node.asked() + AGAIN;
        let due = table.iter().filter(|(_, node)| is_due(node));
        let due: Vec<Box<str>> = due.map(|(name, _)| name.into()).collect();
        assert_eq!(table.settled_for(AGAIN, 1, now), due);
    }
}

fn new_pod(node: &str, number: usize, shape: Shape, images: &[Box<str>]) -> WarmerPod {
    let images = images.iter().enumerate();
    let images = images.map(|(index, image)| WarmerImage {
        wanted: image.clone(),
        index,
        image: image.clone(),
        container: Reported::default(),
    });
    WarmerPod {
        name: format!("pod-{number}").into(),
        uid: format!("u{number}").into(),
        namespace: "warm".into(),
        run: "run".into(),
        job: "job".into(),
        job_namespace: "default".into(),
        generation: 1,
        node: node.into(),
        is_elsewhere: false,
        shape,
        before: None,
        deleting: false,
        phase: Phase::Pending,
        trouble: "".into(),
        unschedulable: "".into(),
        init: ContainerState::Unreported,
        images: images.collect(),
    }
}

proptest! {
    #[test]
    fn bug9_nothing_comes_of_a_node_that_a_step_does_not_look_at(
        history in proptest::collection::vec(happens(), 1..150),
    ) {
        let mut world = World::new();
        for happens in &history {
            world.happens(happens);
            world.assert_sets_are_whole();
        }
        for _ in 0..2 {
            world.warming.news();
        }
        prop_assert!(world.warming.nodes.with_news().is_empty());
    }
}
