//! The decoders, each with the decisions about what it reads.

use std::ffi::OsString;
use std::hint::black_box;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::WatchEvent;
use serde::de::DeserializeOwned;
use serde_json::Value;
use swaplet::cli::Cli;
use swaplet::image::docker_config::DockerConfig;
use swaplet::image::reference::ImageReference;
use swaplet_controller::cluster::verdict_store;
use swaplet_core::check::around::Described;
use swaplet_core::check::form;
use swaplet_core::check::scripts::ConfigMaps;
use swaplet_core::cluster::daemon_pod::DaemonPodWire;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::{Headroom, Ledger, Swapped};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_images::NodeImagesWire;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::command::{ContainerFacts, StandardPaths, resolve_read};
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::node::{Node, NodeWire};
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::wire::brief::PodBriefWire;
use swaplet_core::objects::recreate_request::RecreateRequestWire;
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::{go_duration, label_selector};
use swaplet_core::policies::set::{Labels, Policies};
use swaplet_core::protect;
use swaplet_core::protect::decide::Counts;
use swaplet_core::protect::object::{ClaimWire, Guarded, GuardedWire};
use swaplet_core::restart::on_config::annotation;
use swaplet_core::restart::on_config::pod::ConfiguredPodWire;
use swaplet_core::restart::on_config::record;
use swaplet_core::restart::parked::Parked;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::reconcile;
use swaplet_core::restart::request::{Journal, RestartRequestWire};
use swaplet_core::terminate::circumstances::{Circumstances, NodeFacts};
use swaplet_core::terminate::memory::Memory;
use swaplet_core::terminate::memory::image_troubles::ImageTroubles;
use swaplet_core::terminate::memory::past_exits::PastExits;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::{Coexist, Daemon, OpenKruise, Terminator};
use swaplet_core::terminate::{self, explain};
use swaplet_core::warm::image_cache::object::ImageCache;
use swaplet_core::warm::image_waits::ImageWaitWire;
use swaplet_core::warm::pod::WarmerPodWire;
use swaplet_core::warm::predownload::workload::Workload;
use swaplet_core::warm::predownload::{self, PodSeen};
use swaplet_core::warm::pull_job;
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use swaplet_edge::manifests::Manifests;

use crate::corpus::{self, Kind};
use crate::{hot_upgrade, registry};

/// A decoder.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&str),
    /// What it may allocate, where that is another number than for all.
    pub most: Option<usize>,
}

const fn target(name: &'static str, run: fn(&str)) -> Target {
    Target {
        name,
        run,
        most: None,
    }
}

/// Those that read a kind.
pub fn of(kind: Kind) -> Vec<Target> {
    match kind {
        Kind::Pod => of_pods(),
        Kind::Job => vec![target("JobWire", |text| {
            drop(decode::<JobWire>(text).and_then(|job| job.read()))
        })],
        Kind::Node => vec![
            target("NodeWire", |text| {
                drop(decode::<NodeWire>(text).and_then(NodeWire::read))
            }),
            target("NodeImagesWire", |text| {
                drop(decode::<NodeImagesWire>(text).and_then(NodeImagesWire::read))
            }),
        ],
        Kind::Request => vec![
            target("RestartRequestWire", |text| {
                drop(decode::<RestartRequestWire>(text).and_then(RestartRequestWire::read))
            }),
            target("RecreateRequestWire", |text| {
                drop(decode::<RecreateRequestWire>(text).and_then(RecreateRequestWire::read))
            }),
            target("restarts", |text| restarts(Some(text), None)),
        ],
        Kind::PullJob => vec![target("PullJob", pull_jobs)],
        Kind::Policy => vec![target("SidecarPolicy", policies)],
        Kind::SidecarSet => vec![target("SidecarSet", |text| {
            hot_upgrade::of_set(decode(text))
        })],
        Kind::Manifest => vec![Target {
            name: "check",
            run: check,
            most: Some(1 << 30),
        }],
        Kind::Config => vec![Target {
            name: "config",
            run: config,
            most: Some(1 << 28),
        }],
        Kind::Image => vec![target("ImageReference", images)],
        Kind::Registry => vec![Target {
            name: "registry",
            run: registry::ask,
            most: Some(1 << 28),
        }],
        Kind::Annotation => vec![target("annotations", annotations)],
        Kind::Workload => of_workloads(),
        Kind::Protected => vec![
            target("GuardedWire", |text| {
                let crd = decode::<GuardedWire<CustomResourceDefinition>>(text);
                crd.and_then(GuardedWire::read).iter().for_each(count)
            }),
            target("ClaimWire", |text| {
                drop(decode::<ClaimWire>(text).map(ClaimWire::read))
            }),
        ],
        Kind::ImageCache => vec![target("ImageCache", |text| {
            drop(decode::<BoundedObject>(text).and_then(ImageCache::read))
        })],
        Kind::NodeClasses => vec![Target {
            name: "NodeTable",
            run: node_classes,
            most: Some(1 << 28),
        }],
        Kind::Stored => vec![
            target("verdicts", verdicts),
            target("records", |text| drop(record::read(text))),
        ],
        Kind::DockerConfig => vec![target("DockerConfig", docker_config)],
    }
}

fn of_pods() -> Vec<Target> {
    vec![
        target("PodWire", |text| {
            decode::<PodWire>(text)
                .and_then(PodWire::read)
                .iter()
                .for_each(decide)
        }),
        target("RestartPodWire", |text| {
            drop(decode::<RestartPodWire>(text).and_then(RestartPodWire::read))
        }),
        target("restarts", |text| restarts(None, Some(text))),
        target("UpgradePodWire", |text| hot_upgrade::of_pod(decode(text))),
        target("ConfiguredPodWire", |text| {
            drop(decode::<ConfiguredPodWire>(text).and_then(ConfiguredPodWire::read))
        }),
        target("WarmerPodWire", |text| {
            drop(decode::<WarmerPodWire>(text).and_then(WarmerPodWire::read))
        }),
        target("ImageWaitWire", |text| {
            drop(decode::<ImageWaitWire>(text).and_then(ImageWaitWire::read))
        }),
        target("PodBriefWire", |text| {
            drop(decode::<PodBriefWire>(text).map(PodBriefWire::read))
        }),
        target("DaemonPodWire", |text| {
            drop(decode::<DaemonPodWire>(text).and_then(DaemonPodWire::read))
        }),
    ]
}

fn of_workloads() -> Vec<Target> {
    vec![
        target("Deployment", |text| {
            predownload(decode(text).and_then(Workload::of_deployment))
        }),
        target("StatefulSet", |text| {
            predownload(decode(text).and_then(Workload::of_stateful_set))
        }),
        target("CloneSet", |text| {
            predownload(decode(text).and_then(Workload::of_clone_set))
        }),
    ]
}

/// As it comes in a watch.
fn decode<T: DeserializeOwned + Clone>(object: &str) -> Option<T> {
    match serde_json::from_str(&format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}")) {
        Ok(WatchEvent::Modified(object)) => Some(object),
        _ => None,
    }
}

fn count(object: &Guarded) {
    let none = Counts {
        objects: 0,
        claims: 0,
    };
    for counts in [None, Some(none)] {
        let mut memory = protect::decide::Memory::default();
        for seconds in [0, 1, u64::from(u32::MAX)] {
            let now = Duration::from_secs(seconds);
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

fn decide(pod: &Pod) {
    let (rules, past_exits, mut headroom) =
        (exit_images(), PastExits::default(), Ledger::default());
    let allowed = AllowedMethods {
        finish: true,
        ..AllowedMethods::default()
    };
    let mut memory = Memory::default();
    let mut image_troubles = ImageTroubles::default();
    for seconds in [0, 1, 600, u64::from(u32::MAX)] {
        let now = Duration::from_secs(seconds);
        memory.observe(pod, &rules, now);
        image_troubles.observe(pod, &memory, now);
        headroom.observe(pod, Swapped::of(pod, &memory, &rules), 0);
        let openkruise = OpenKruise {
            seen: true,
            coexist: Coexist::default(),
            terminator: Terminator::default(),
            daemon: Daemon::default(),
            request: None,
            past_exits: &past_exits,
        };
        let around = Circumstances {
            exit_images: &rules,
            allowed: &allowed,
            headroom: &headroom,
            line_moved: None,
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
fn restarts(request: Option<&str>, pod: Option<&str>) {
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
        let now = Duration::from_secs(seconds);
        let around = reconcile::Around {
            exit_images: &rules,
            park: None,
            node: Some(NodeClass::Kubelet),
            kubelet: None,
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
fn policies(text: &str) {
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

fn pull_jobs(text: &str) {
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
            black_box(spec.parallelism.of(usize::MAX));
        }
        black_box(pull_job::time_to_live(&job, Timestamp::MIN));
        black_box(pull_job::time_to_live(&job, Timestamp::MAX));
    }
}

fn in_file<T>(name: &str, text: &str, work: impl FnOnce(&std::path::Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, text).unwrap();
    work(&file)
}

/// As `swaplet check` reads manifests.
fn check(text: &str) {
    let manifests = in_file("a.yaml", text, |file| Manifests::read(&[file.to_owned()]));
    let objects = manifests.documents.iter().map(|document| &document.object);
    let mut maps = ConfigMaps::default();
    for object in objects.clone() {
        maps.add(object, "");
        drop(form::problems(object));
    }
    let table = NodeTable::built_in();
    for described in objects.flat_map(Described::all) {
        drop(described.placement.row(&table));
        for container in &described.template.spec.containers {
            let read =
                |path: &str| maps.first_line("", &described.config_files.at(&container.name, path));
            let facts = ContainerFacts::of(&described.template.spec, container);
            drop(resolve_read(&facts, &StandardPaths, &read));
        }
    }
}

fn config(text: &str) {
    in_file("config.yaml", text, |file| {
        let line = ["swaplet", "run", "--config"].map(OsString::from);
        drop(Cli::read(
            line.into_iter().chain([file.as_os_str().to_owned()]),
        ));
    });
}

fn images(text: &str) {
    // With quotes around it, as JSON has it, and without.
    let quoted = serde_json::from_str::<Value>(text)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned));
    for written in quoted.iter().map(String::as_str).chain([text]) {
        let Ok(reference) = ImageReference::parse(written) else {
            continue;
        };
        assert!(written.len() <= 1024);
        drop((
            reference.normalized(),
            reference.with_tag("x"),
            reference.pinned("sha256:1"),
            reference.is_alias_of(&reference),
        ));
    }
}

/// What is written for a workload none of whose pods has its images.
fn predownload(workload: Option<Workload>) {
    let pods = [PodSeen::default()];
    drop(workload.map(|workload| predownload::decide(&workload, &pods, &[])));
}

/// A table, and a node that is looked up in it.
fn node_classes(text: &str) {
    if let Ok(table) = NodeTable::read(text) {
        drop((table.find(&Node::default()), table.find_by_name("vk-1")));
    }
}

fn verdicts(text: &str) {
    let data = Some([("node".to_owned(), text.to_owned())].into());
    let map = ConfigMap {
        data,
        ..ConfigMap::default()
    };
    for kept in verdict_store::read(&map).values() {
        for today in [Timestamp::MIN, Timestamp::MAX] {
            drop(kept.restore(Duration::from_secs(1), today));
        }
    }
}

fn docker_config(text: &str) {
    let config = in_file("config.json", text, DockerConfig::load_from);
    for image in ["busybox", "r.example/team/app:1", "other.example/app"] {
        let reference = ImageReference::parse(image).unwrap();
        if let Ok(config) = &config {
            drop(config.credentials(&reference));
        }
    }
}

fn annotations(text: &str) {
    drop(Journal::read(text));
    drop(Parked::read(text, "u"));
    drop(annotation::parse(text, &["app".into(), "log".into()]));
    drop(label_selector::parse(text));
    black_box(go_duration::duration(text));
}
