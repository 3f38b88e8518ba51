//! The decoders, each with the decisions about what it reads.

mod decisions;

use std::ffi::OsString;
use std::hint::black_box;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
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
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_images::NodeImagesWire;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::command::{ContainerFacts, StandardPaths, resolve_read};
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::{Node, NodeWire};
use swaplet_core::objects::pod::brief::PodBriefWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::recreate_request::RecreateRequestWire;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::{go_duration, label_selector};
use swaplet_core::protect::object::{ClaimWire, GuardedWire, MetadataWire};
use swaplet_core::restart::on_config::pod::ConfiguredPodWire;
use swaplet_core::restart::on_config::{annotation, record};
use swaplet_core::restart::parked::Parked;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::request::{Journal, RestartRequestWire};
use swaplet_core::warm::image_cache::ImageCache;
use swaplet_core::warm::image_waits::ImageWaitWire;
use swaplet_core::warm::pod::WarmerPodWire;
use swaplet_core::warm::predownload::workload::WorkloadWire;
use swaplet_edge::manifests::Manifests;

use self::decisions::{count, decide, policies, predownload, pull_jobs, restarts};
use crate::corpus::Kind;
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
                crd.and_then(GuardedWire::read)
                    .iter()
                    .for_each(|it| count(&it.0))
            }),
            target("ClaimWire", |text| {
                drop(decode::<ClaimWire>(text).map(ClaimWire::read))
            }),
            target("MetadataWire", |text| {
                drop(decode::<MetadataWire<Pod>>(text).map(MetadataWire::read))
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
            predownload(
                decode::<WorkloadWire<Deployment>>(text)
                    .and_then(WorkloadWire::read)
                    .map(|it| it.0),
            )
        }),
        target("StatefulSet", |text| {
            predownload(
                decode::<WorkloadWire<StatefulSet>>(text)
                    .and_then(WorkloadWire::read)
                    .map(|it| it.0),
            )
        }),
        target("CloneSet", |text| {
            predownload(
                decode::<WorkloadWire<BoundedObject>>(text)
                    .and_then(WorkloadWire::read)
                    .map(|it| it.0),
            )
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
            reference.is_alias_of(&reference),
        ));
    }
}

/// A table, and a node that is looked up in it.
fn node_classes(text: &str) {
    if let Ok(table) = NodeTable::read(text) {
        drop((
            table.find(&Node::default()),
            Recognised::by_name("vk-1", &table),
        ));
    }
}

fn verdicts(text: &str) {
    let entries = [("node".to_owned(), text.to_owned())];
    for kept in verdict_store::read(entries.into()).values() {
        for today in [Timestamp::MIN, Timestamp::MAX] {
            drop(kept.restore(Moment::after_start(Duration::from_secs(1)), today));
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
