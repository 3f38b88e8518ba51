//! The decisions about what was read, each at several times.

use std::hint::black_box;
use std::time::Duration;

use jiff::Timestamp;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::{Headroom, Ledger, Swapped};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::amount::Rounding;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::policies::set::{Labels, Policies};
use swaplet_core::protect;
use swaplet_core::protect::decide::Counts;
use swaplet_core::protect::object::Guarded;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::reconcile;
use swaplet_core::restart::request::RestartRequestWire;
use swaplet_core::terminate::memory::Memory;
use swaplet_core::terminate::memory::image_troubles::ImageTroubles;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::{Coexist, Daemon, OpenKruise, Terminator};
use swaplet_core::terminate::{self, Circumstances, NodeFacts, explain};
use swaplet_core::warm::predownload::workload::Workload;
use swaplet_core::warm::predownload::{self, PodSeen};
use swaplet_core::warm::pull_job;
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};

use super::decode;
use crate::corpus::{self, Kind};

pub(super) fn count(object: &Guarded) {
    let none = Counts {
        objects: 0,
        claims: 0,
    };
    for counts in [None, Some(none)] {
        let mut memory = protect::decide::Memory::default();
        for seconds in [0, 1, u64::from(u32::MAX)] {
            let now = Moment::after_start(Duration::from_secs(seconds));
            drop(protect::decide::decide(object, counts, &mut memory, now));
        }
    }
}

fn exit_images() -> ExitImages {
    ExitImages::new(
        Some("registry.example/exit:v1".parse().unwrap()),
        vec!["registry.example/exit/*".parse().unwrap()],
    )
}

pub(super) fn decide(pod: &Pod) {
    let (rules, mut headroom) = (exit_images(), Ledger::default());
    let allowed = AllowedMethods {
        finish: true,
        ..AllowedMethods::default()
    };
    let mut memory = Memory::default();
    let mut image_troubles = ImageTroubles::default();
    for seconds in [0, 1, 600, u64::from(u32::MAX)] {
        let now = Moment::after_start(Duration::from_secs(seconds));
        memory.observe(pod, &rules, now);
        image_troubles.observe(pod, &memory, now);
        headroom.observe(pod, Swapped::of(pod, &memory, &rules, &allowed, true), 0);
        let openkruise = OpenKruise {
            seen: true,
            coexist: Coexist::default(),
            terminator: Terminator::default(),
            daemon: Daemon::default(),
            request: None,
        };
        let around = Circumstances {
            exit_images: &rules,
            allowed: &allowed,
            headroom: &headroom,
            image_troubles: &image_troubles,
            node: NodeClass::Kubelet,
            facts: NodeFacts::default(),
            openkruise,
            policies_unseen_until: None,
            now,
            started_at: Some(jiff::Timestamp::UNIX_EPOCH),
        };
        drop(terminate::decide(pod, &memory, &around));
        drop(explain::explain(pod, &memory, &around, ""));
    }
}

/// A restart; of what is not there the sample is taken.
pub(super) fn restarts(request: Option<&str>, pod: Option<&str>) {
    let sample = |kind| {
        let mut samples = corpus::ALL.iter();
        &*samples.find(|sample| sample.kind == kind).unwrap().text
    };
    let request = request.unwrap_or_else(|| sample(Kind::Request));
    let pod = pod.unwrap_or_else(|| sample(Kind::Pod));
    let Some(request) = decode::<RestartRequestWire>(request).and_then(RestartRequestWire::read)
    else {
        return;
    };
    let pod = decode::<RestartPodWire>(pod).and_then(RestartPodWire::read);
    let rules = exit_images();
    let mut memory = reconcile::Memory::default();
    for seconds in [0, 600, u64::from(u32::MAX)] {
        let now = Moment::after_start(Duration::from_secs(seconds));
        let around = reconcile::Around {
            exit_images: &rules,
            park: None,
            node: Some(NodeClass::Kubelet),
            kubelet: None,
            runs_on: RunsOn::default(),
            room: &|_| Headroom::Free,
            is_first: true,
            left_to_vendor: Some(true),
            now,
            today: Timestamp::MAX,
        };
        if let Some(pod) = &pod {
            memory.observe(&request, pod, now);
        }
        let sight = pod
            .as_ref()
            .map_or(reconcile::Sight::Absent, reconcile::Sight::There);
        drop(reconcile::decide(&request, sight, &memory, &around));
    }
}

/// A policy, and what it makes of a pod with the containers that policies are about.
pub(super) fn policies(text: &str) {
    let sample = corpus::ALL.iter().find(|sample| sample.kind == Kind::Pod);
    for kind in PolicyKind::ALL {
        let Some(policy) =
            decode::<BoundedObject>(text).and_then(|object| SidecarPolicy::read(kind, object))
        else {
            continue;
        };
        let mut policies = Policies::default();
        policies.apply(&policy);
        policies.namespace("ns", Some(Labels::new()));
        let pod = sample.and_then(|sample| {
            decode::<PodWire>(&sample.text)?
                .read_with(|pod, labels| policies.mark(pod, labels, |_| false))
        });
        pod.iter().for_each(decide);
    }
}

pub(super) fn pull_jobs(text: &str) {
    for kind in JobKind::ALL {
        let Some(job) =
            decode::<BoundedObject>(text).and_then(|object| PullJob::read(kind, object))
        else {
            continue;
        };
        if let Ok(spec) = &job.spec {
            black_box(pull_job::exceeds_deadline(
                spec,
                job.started_at.unwrap_or(Timestamp::MIN),
                Timestamp::MAX,
            ));
            black_box(swaplet_core::warm::image_cache::patience(spec));
            black_box(spec.parallelism.of(usize::MAX, Rounding::Up));
        }
        black_box(pull_job::time_to_live(&job, Timestamp::MIN));
        black_box(pull_job::time_to_live(&job, Timestamp::MAX));
    }
}

/// What is written for a workload none of whose pods has its images.
pub(super) fn predownload(workload: Option<Workload>) {
    let pods = [PodSeen::default()];
    drop(workload.map(|workload| predownload::decide(&workload, &pods, &[])));
}
