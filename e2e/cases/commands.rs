//! Every sidecar of `tests/command/sidecars.yaml` that gets the verdict Runnable ends on a real
//! node, and so does every one that needs another image, which the controller derives. A script of
//! a ConfigMap is not read, so there the phase would be written. The sidecar's own
//! image is a stand-in: the park program at all paths that are executed.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use swaplet::image::build::build;
use swaplet::image::docker_config::Credentials;
use swaplet::image::push::push;
use swaplet::image::registry::{Registry, RegistryOptions};
use swaplet::image::{BuiltImage, ImageReference, Kind};

use crate::audit::swapped_in;
use crate::controller::{Controller, Why};
use crate::pods::{MARK, container, pod, spec};
use crate::world::World;

/// So many rows are sidecars of one pod: less is made for each of them than by pods of their own.
const IN_ONE_POD: usize = 8;
/// So many pods are there at once.
const AT_ONCE: usize = 5;

/// The interpreters of the scripts below, and what they are looked for by.
const INTERPRETERS: [&str; 3] = ["/bin/bash", "/bin/sh", "/usr/bin/env"];

struct Case {
    name: String,
    verdict: String,
    row: Value,
}

impl Case {
    fn all() -> Vec<Self> {
        let rows: Vec<Value> =
            serde_saphyr::from_str(include_str!("../../tests/command/sidecars.yaml")).unwrap();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let cases = rows.into_iter().map(|row| Self {
            name: text(&row, "name"),
            verdict: text(&row, "verdict"),
            row,
        });
        cases
            .filter(|case| {
                let in_doubt = case.verdict.starts_with("Script ");
                !in_doubt && !case.verdict.starts_with("NotSwappable")
            })
            .collect()
    }

    /// The path of the verdict.
    fn path(&self) -> &str {
        self.verdict.split_once(' ').unwrap().1
    }

    fn needs_image(&self) -> bool {
        self.verdict.starts_with("NeedsImage ")
    }

    /// The container as it is, but for its image, its mark, the names of its volumes and what the
    /// node of a test cannot have.
    fn container(&self, images: &Images) -> Value {
        let mut sidecar = self.row["container"].clone();
        sidecar["name"] = self.name.clone().into();
        sidecar["image"] = if self.is_parked_beside_a_mount() {
            images.bare.clone()
        } else {
            images.stand_in.clone()
        }
        .into();
        let mut env = sidecar["env"].as_array().cloned().unwrap_or_default();
        env.push(json!({"name": MARK, "value": "true"}));
        sidecar["env"] = env.into();
        // A probe would restart the stand-in, which answers nobody, and a hook would end it.
        for key in ["livenessProbe", "lifecycle"] {
            sidecar.as_object_mut().unwrap().remove(key);
        }
        for mount in sidecar["volumeMounts"].as_array_mut().into_iter().flatten() {
            mount["name"] = self.own(&mount["name"]);
        }
        sidecar
    }

    /// The name of a volume of this row among those of others.
    fn own(&self, volume: &Value) -> Value {
        format!("{}-{}", self.name, volume.as_str().unwrap()).into()
    }

    /// One row mounts a volume where the stand-in of another row has its program.
    fn is_parked_beside_a_mount(&self) -> bool {
        self.path().ends_with("/.swaplet")
    }

    fn volumes(&self) -> impl Iterator<Item = Value> {
        self.row["volumes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|volume| {
                let mut volume = volume.clone();
                volume["name"] = self.own(&volume["name"]);
                if volume.get("hostPath").is_some() {
                    return json!({"name": volume["name"], "emptyDir": {}});
                }
                if volume.get("configMap").is_some() {
                    volume["configMap"] = json!({"name": "files", "defaultMode": 0o755});
                }
                volume
            })
    }
}

struct Images {
    stand_in: String,
    bare: String,
}

impl Images {
    async fn push(world: &World, cases: &[Case]) -> Self {
        let repository = |name: &str| {
            format!(
                "{}/{name}",
                world.images.exit.replace("/swaplet/exit:e2e", "/e2e")
            )
        };
        let images = Self {
            stand_in: repository("stand-in:v1"),
            bare: repository("bare:v1"),
        };
        let paths = |wanted: &dyn Fn(&Case) -> bool| -> BTreeSet<&str> {
            cases
                .iter()
                .filter(|case| wanted(case))
                .map(Case::path)
                .collect()
        };
        let executed = paths(&|case| {
            !case.is_parked_beside_a_mount() && !case.path().starts_with("/swaplet/")
        });
        send(
            &images.stand_in,
            &build(Kind::Park, executed.into_iter().chain(INTERPRETERS)).unwrap(),
        )
        .await;
        send(&images.bare, &build(Kind::Park, [""; 0]).unwrap()).await;
        images
    }
}

/// Debian's registry refuses one of two pushes of the same layer at the same moment.
static PUSH: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub async fn send(reference: &str, image: &BuiltImage) {
    let _one_at_a_time = PUSH.lock().await;
    let reference = ImageReference::parse(reference).unwrap();
    let registry = Registry::connect(
        &reference,
        &Credentials::Anonymous,
        RegistryOptions::default(),
    )
    .await
    .unwrap();
    push(&registry, &reference, image, true).await.unwrap();
}

/// What the containers refer to.
async fn create_files(world: &World) {
    let object = |kind: &str, name: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "stringData": data});
    let secret = object("Secret", "token", json!({"token": "x"}));
    let script = "#!/usr/bin/env bash\nexec park\n";
    let files = json!({"entrypoint.sh": script, "filebeat.yml": "x", "install_info": "x"});
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": files});
    world
        .api()
        .create(
            &kube::api::PostParams::default(),
            &serde_json::from_value::<k8s_openapi::api::core::v1::Secret>(secret).unwrap(),
        )
        .await
        .unwrap();
    for name in ["files", "c"] {
        let map: k8s_openapi::api::core::v1::ConfigMap = serde_json::from_value(map(name)).unwrap();
        world
            .api()
            .create(&kube::api::PostParams::default(), &map)
            .await
            .unwrap();
    }
}

/// A pod whose main ends, with these rows as its sidecars.
fn pod_of(
    world: &World,
    name: &str,
    restart_policy: &str,
    rows: &[Case],
    images: &Images,
) -> Value {
    let mut containers = vec![container(world, "main", "sleep 10")];
    containers.extend(rows.iter().map(|row| row.container(images)));
    let mut spec = spec(restart_policy, containers);
    spec["volumes"] = rows.iter().flat_map(Case::volumes).collect();
    pod(name, spec)
}

/// All rows, in pods under these policies by turns: each row ends, by the image that it is said to
/// need, and each pod by one patch.
async fn all_end(case: &str, policies: [&str; 2]) {
    let world = World::new(case).await;
    let mut cases = Case::all();
    let images = Images::push(&world, &cases).await;
    create_files(&world).await;
    let derived = format!(
        "{}/e2e/derived-commands",
        world.images.exit.split('/').next().unwrap()
    );
    let _controller =
        Controller::process(&world, &["--derived-repository", &derived], Why::Registry).await;
    // Those that wait for an image of their own keep no others waiting.
    cases.sort_by_key(Case::needs_image);
    let pods: Vec<_> = cases
        .chunk_by(|one, next| one.needs_image() == next.needs_image())
        .flat_map(|some| some.chunks(IN_ONE_POD))
        .collect();
    let names: Vec<_> = (0..pods.len())
        .map(|number| format!("pod-{number:02}"))
        .collect();
    let numbered: Vec<_> = names.iter().zip(pods).enumerate().collect();
    for some in numbered.chunks(AT_ONCE) {
        for (number, (name, rows)) in some {
            world
                .create_pod(pod_of(&world, name, policies[number % 2], rows, &images))
                .await;
        }
        for (_, (name, rows)) in some {
            let ended = world
                .pod_is(name, "ended", |pod| {
                    matches!(crate::world::phase_of(pod), "Succeeded" | "Failed")
                })
                .await;
            let statuses = ended.status.as_ref().unwrap().container_statuses.clone();
            assert_eq!(
                crate::world::phase_of(&ended),
                "Succeeded",
                "{name}: {statuses:?}"
            );
            let containers = ended.spec.unwrap().containers;
            for row in *rows {
                let swapped = containers
                    .iter()
                    .find(|found| found.name == row.name)
                    .unwrap()
                    .image
                    .as_ref()
                    .unwrap();
                let expected = if row.needs_image() {
                    swapped.starts_with(&format!("{derived}@"))
                } else {
                    *swapped == world.images.exit
                };
                assert!(expected, "{} has ended with {swapped}", row.name);
            }
        }
    }
    assert_eq!(swapped_in(&world.namespace), names, "one patch per pod");
    world.done().await;
}

#[tokio::test]
async fn real_command_lines_end() {
    all_end("commands", ["Never", "OnFailure"]).await;
}

mod long {
    use super::*;

    #[tokio::test]
    async fn real_command_lines_end_under_the_other_policy_too() {
        all_end("commands-other", ["OnFailure", "Never"]).await;
    }
}
