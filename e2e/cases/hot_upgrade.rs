//! Hot upgrades on a real kubelet: a client in the pod asks the sidecar all the time, and never
//! misses an answer.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, LogParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::controller::Controller;
use crate::images::push_work;
use crate::pods::{container, is_ready, pod, spec, status_of};
use crate::world::{World, create_crd, eventually, variable};

const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// Stops to listen at once, and answers whoever has asked before.
const SERVES: &str =
    "trap 'kill $!; sleep 1; exit 0' TERM; /bin/busybox httpd -f -p $PORT -h /www & wait";
/// The same of a container that has hooks and probes, and does nothing with an empty image.
const SERVES_UNLESS_EMPTY: &str = "case $IMAGE in *hot-empty*) trap 'exit 0' TERM; sleep 3600 & wait;; esac; \
    trap 'kill $!; sleep 1; exit 0' TERM; /bin/busybox httpd -f -p $PORT -h /www & wait";
/// Takes over for so long that nobody could take it for ready by chance.
const TAKES_OVER: &str = "case $IMAGE in *hot-empty*) ;; *) sleep 15;; esac";
const ANSWERS: &str =
    "case $IMAGE in *hot-empty*) ;; *) /bin/busybox nc -w 1 127.0.0.1 $PORT </dev/null;; esac";
/// Asks one of the pair, and the other where that does not answer: a slow answer is one, and where
/// nobody listens that is known at once.
const ASKS: &str = r"trap 'exit 0' TERM; echo answered > /www/index.html;
    ask() {
        for port in 8001 8002; do
            printf 'GET / HTTP/1.0\r\n\r\n' | /bin/busybox nc -w 60 127.0.0.1 $port 2>/dev/null | /bin/busybox grep -q ^answered && return
        done
        false
    }
    until ask; do sleep 0.2; done
    while true; do if ask; then echo answer; else echo miss; fi; sleep 0.2; done";

static IMAGES: OnceCell<()> = OnceCell::const_new();

/// The sidecar of these images is the same; each has another name and content.
pub fn mesh(version: &str) -> String {
    let registry = variable("SWAPLET_E2E_REGISTRY");
    format!("{registry}/e2e/hot-mesh-{version}:v1")
}

fn empty() -> String {
    let registry = variable("SWAPLET_E2E_REGISTRY");
    format!("{registry}/e2e/hot-empty-1:v1")
}

pub struct Upgrades {
    pub world: World,
    sets: Api<DynamicObject>,
    empty: String,
    _controller: Controller,
}

impl Upgrades {
    /// A controller, the pod `p` with the client, and a set that names the image that it has.
    async fn new(case: &str, empty: Option<String>) -> Self {
        Self::in_world(World::new(case).await, empty).await
    }

    pub async fn in_world(world: World, empty: Option<String>) -> Self {
        IMAGES
            .get_or_init(|| async {
                create_crd("sidecarsets").await;
                let registry = variable("SWAPLET_E2E_REGISTRY");
                for image in ["a", "b"].map(mesh).into_iter().chain([self::empty()]) {
                    push_work(&registry, &image).await;
                }
            })
            .await;
        let resource = ApiResource {
            group: "apps.kruise.io".to_owned(),
            version: "v1beta1".to_owned(),
            api_version: "apps.kruise.io/v1beta1".to_owned(),
            kind: "SidecarSet".to_owned(),
            plural: "sidecarsets".to_owned(),
        };
        let sets = Api::all_with(world.client.clone(), &resource);
        let (listed, park) = (mesh("*"), &world.images.park);
        let flags = [
            "--hot-upgrade",
            "--hot-upgrade-images",
            &listed,
            "--park-image",
            park,
        ];
        let controller = match &empty {
            None => Controller::start_with(&world, &flags).await,
            Some(empty) => {
                let others = ["--hot-upgrade-empty-images", empty];
                Controller::start_with(&world, &[&flags[..], &others].concat()).await
            }
        };
        let upgrades = Self {
            empty: empty.unwrap_or_else(|| world.images.park.clone()),
            sets,
            _controller: controller,
            world,
        };
        let spec = upgrades.spec(&mesh("a"));
        let set =
            DynamicObject::new(&upgrades.world.namespace, &resource).data(json!({"spec": spec}));
        upgrades
            .sets
            .create(&PostParams::default(), &set)
            .await
            .unwrap();
        upgrades
    }

    fn spec(&self, image: &str) -> Value {
        let strategy = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": self.empty});
        let namespaces =
            json!({"matchLabels": {"kubernetes.io/metadata.name": self.world.namespace}});
        json!({"selector": {"matchLabels": {"app": "hot"}}, "namespaceSelector": namespaces,
            "containers": [{"name": "mesh", "image": image, "upgradeStrategy": strategy}]})
    }

    /// The pod, as its template has it: with the pair.
    pub async fn run(&self, name: &str, change: impl Fn(&mut Value)) {
        let mounts = json!([{"name": "www", "mountPath": "/www"}]);
        let mut client = container(&self.world, "app", ASKS);
        client["volumeMounts"] = mounts.clone();
        let sidecar = |name: &str, port: &str, image: &str| {
            let mut sidecar = container(&self.world, name, SERVES);
            sidecar["image"] = json!(image);
            sidecar["volumeMounts"] = mounts.clone();
            let version = format!("metadata.annotations['version.sidecarset.kruise.io/{name}']");
            sidecar["env"] = json!([{"name": "PORT", "value": port},
                {"name": "SIDECARSET_VERSION", "valueFrom": {"fieldRef": {"fieldPath": version}}}]);
            change(&mut sidecar);
            sidecar
        };
        let pair = [
            sidecar("mesh-1", "8001", &mesh("a")),
            sidecar("mesh-2", "8002", &self.empty),
        ];
        let [first, second] = pair;
        let mut made = pod(name, spec("Always", vec![client, first, second]));
        made["metadata"]["labels"] = json!({"app": "hot"});
        made["spec"]["volumes"] = json!([{"name": "www", "emptyDir": {}}]);
        self.world.create_pod(made).await;
        self.is_ready(name).await;
    }

    async fn is_ready(&self, name: &str) -> Pod {
        self.world.pod_is(name, "ready", is_ready).await
    }

    pub async fn set_image(&self, image: &str) {
        let patch = Patch::Merge(json!({"spec": self.spec(image)}));
        let name = &self.world.namespace;
        self.sets
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until the status says so of `matchedPods`, `updatedPods`, `readyPods` and
    /// `updatedReadyPods`.
    async fn says(&self, counts: [i64; 4]) -> Value {
        let fields = [
            "matchedPods",
            "updatedPods",
            "readyPods",
            "updatedReadyPods",
        ];
        eventually(&format!("the set to say {counts:?}"), || async {
            let set = self.sets.get(&self.world.namespace).await.unwrap();
            let (status, generation) = (set.data["status"].clone(), set.metadata.generation);
            let is_it = fields.map(|field| status[field].as_i64().unwrap_or(-1)) == counts;
            (is_it && status["observedGeneration"].as_i64() == generation).then_some(status)
        })
        .await
    }

    /// Waits until this image works in the second container or in the first, and the other one is
    /// empty and runs.
    async fn works(&self, name: &str, image: &str, nth: usize) -> Pod {
        let (working, other) = (format!("mesh-{nth}"), format!("mesh-{}", 3 - nth));
        self.world
            .pod_is(name, &format!("upgraded to {image} in {working}"), |pod| {
                runs(pod, &working, image) && runs(pod, &other, &self.empty)
            })
            .await
    }

    /// The client has asked all the time, and every time there was an answer; waits until it has got
    /// so many, which takes longer on a busy node.
    pub async fn nobody_missed_an_answer(&self, name: &str, at_least: usize) {
        let params = LogParams {
            container: Some("app".to_owned()),
            ..LogParams::default()
        };
        let answers = eventually(&format!("{at_least} answers"), || async {
            let log = self.world.api::<Pod>().logs(name, &params).await.unwrap();
            let count = |word: &str| log.lines().filter(|line| *line == word).count();
            assert_eq!(count("miss"), 0, "beside {} answers", count("answer"));
            Some(count("answer")).filter(|answers| *answers >= at_least)
        })
        .await;
        println!("{answers} answers, none missed");
    }

    /// Upgrades the pod `p` to one image after the other, and waits until each works.
    async fn upgrade(&self, images: &[String]) {
        for (time, image) in images.iter().enumerate() {
            let nth = 2 - time % 2;
            self.set_image(image).await;
            let (working, other) = (format!("mesh-{nth}"), format!("mesh-{}", 3 - nth));
            let is_over = |pod: &Pod| {
                let mut annotations = pod.metadata.annotations.iter().flatten();
                runs(pod, &working, image)
                    && image_of(pod, &other) == self.empty
                    && !annotations.any(|(key, _)| key == "swaplet.io/hot-upgrade")
            };
            let pod = self
                .world
                .pod_is("p", &format!("upgraded to {image}"), is_over)
                .await;
            let annotations = pod.metadata.annotations.clone().unwrap();
            assert_eq!(annotations[WORKING], json!({"mesh": working}).to_string());
            assert_eq!(
                annotations[&format!("version.sidecarset.kruise.io/{other}")],
                "0"
            );
            assert_ne!(
                annotations[&format!("version.sidecarset.kruise.io/{working}")],
                "0"
            );
        }
        self.nobody_missed_an_answer("p", images.len() * 10).await;
    }

    pub async fn done(self) {
        let name = self.world.namespace.clone();
        self.sets
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        self.world.done().await;
    }
}

/// Whether the container has this image, and its node shows it ready with it.
fn runs(pod: &Pod, name: &str, image: &str) -> bool {
    let is_shown = |status: &ContainerStatus| status.ready && status.image == image;
    image_of(pod, name) == image && status_of(pod, name).is_some_and(is_shown)
}

fn image_of<'a>(pod: &'a Pod, name: &str) -> &'a str {
    let containers = pod.spec.as_ref().unwrap().containers.iter();
    let container = containers.clone().find(|container| container.name == name);
    container.unwrap().image.as_deref().unwrap_or_default()
}

#[tokio::test]
async fn hu_e2_an_image_is_upgraded_and_upgraded_again() {
    let case = Upgrades::new("hot-image", None).await;
    case.run("p", |_| {}).await;
    case.says([1, 1, 1, 1]).await;
    case.upgrade(&[mesh("b"), mesh("a")]).await;
    case.works("p", &mesh("a"), 1).await;
    case.says([1, 1, 1, 1]).await;
    case.done().await;
}

/// In place of OpenKruise's pods, which stay with the failed image, the one that was begun with
/// goes back.
#[tokio::test]
async fn hu_e3_a_failed_image_goes_back_and_a_good_one_is_upgraded() {
    let case = Upgrades::new("hot-fails", None).await;
    for name in ["p", "q"] {
        case.run(name, |_| {}).await;
    }
    case.says([2, 2, 2, 2]).await;
    case.set_image(&mesh("missing")).await;
    let status = eventually("the image to be taken back", || async {
        let status = case.says([2, 0, 2, 0]).await;
        let message = status["message"].as_str().unwrap_or_default().to_owned();
        message.contains("reverted in 1 pods").then_some(message)
    })
    .await;
    println!("{status}");
    assert_eq!(case.world.events(1).await.len(), 1);
    for name in ["p", "q"] {
        case.works(name, &mesh("a"), 1).await;
        case.nobody_missed_an_answer(name, 60).await;
    }
    case.set_image(&mesh("b")).await;
    for name in ["p", "q"] {
        case.works(name, &mesh("b"), 2).await;
    }
    case.says([2, 2, 2, 2]).await;
    for name in ["p", "q"] {
        case.nobody_missed_an_answer(name, 60).await;
    }
    case.done().await;
}

#[tokio::test]
async fn the_old_one_works_until_the_post_start_hook_of_the_new_one_has_ended() {
    let case = Upgrades::new("hot-hook", Some(empty())).await;
    let exec = |script: &str| json!({"exec": {"command": ["/bin/sh", "-c", script]}});
    case.run("p", |sidecar| {
        sidecar["args"] = json!([SERVES_UNLESS_EMPTY]);
        sidecar["lifecycle"] = json!({"postStart": exec(TAKES_OVER)});
        sidecar["readinessProbe"] = exec(ANSWERS);
        sidecar["readinessProbe"]["periodSeconds"] = json!(1);
        sidecar["readinessProbe"]["timeoutSeconds"] = json!(30);
    })
    .await;
    case.set_image(&mesh("b")).await;
    let pod = case.works("p", &mesh("b"), 2).await;
    let state = |name: &str| serde_json::to_value(status_of(&pod, name).unwrap()).unwrap();
    let time = |value: &Value| {
        value
            .as_str()
            .unwrap()
            .parse::<k8s_openapi::jiff::Timestamp>()
            .unwrap()
    };
    let started = time(&state("mesh-2")["state"]["running"]["startedAt"]);
    let stopped = time(&state("mesh-1")["lastState"]["terminated"]["finishedAt"]);
    // The hook takes 15 s. After ten minutes the upgrade would be given up.
    let between = stopped.duration_since(started).as_secs();
    assert!((15..600).contains(&between), "{between} s");
    case.nobody_missed_an_answer("p", 60).await;
    case.done().await;
}

/// Those that repeat for volume.
mod long {
    use super::*;

    /// Each image is another one, as with upgrades of users: a kubelet backs off where a container
    /// gets an image once more that it had not long ago.
    #[tokio::test]
    async fn nobody_misses_an_answer_over_twenty_upgrades() {
        let case = Upgrades::new("hot-twenty", None).await;
        case.run("p", |_| {}).await;
        let images: Vec<_> = (1..=20).map(|number| mesh(&number.to_string())).collect();
        let registry = variable("SWAPLET_E2E_REGISTRY");
        for image in &images {
            push_work(&registry, image).await;
        }
        case.upgrade(&images).await;
        case.done().await;
    }
}
