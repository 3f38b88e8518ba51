//! Installations that several cases share: those that have the same flags and need nothing of their
//! own. An installation works in a list of namespaces that must be there when it is installed, so
//! those of all its cases are made by the first one.
//!
//! A case that kills its controller, starts it in a moment that matters, or warms images beside
//! itself has an installation of its own, and so has each case that is not in the list below.

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::audit;

/// The namespaces of shared installations have it, with the process that made them.
pub const LABEL: &str = "swaplet-e2e-shared";

/// An installation, and the names that its cases give to their worlds.
struct Set {
    name: &'static str,
    cases: &'static [&'static str],
    /// Filled by the first of its cases.
    namespaces: OnceCell<()>,
    /// The values with which it was installed, once it is.
    values: OnceCell<String>,
}

impl Set {
    const fn new(name: &'static str, cases: &'static [&'static str]) -> Self {
        Self {
            name,
            cases,
            namespaces: OnceCell::const_new(),
            values: OnceCell::const_new(),
        }
    }
}

static SETS: [Set; 6] = [
    Set::new(
        "default",
        &[
            "finish-ignore",
            "finish-scripts",
            // The first try; another one, which is rare, has an installation of its own.
            "headroom-20-0",
            "headroom-finish",
            "headroom-restarts",
            "mock-kubelet",
            "mock-updates",
            "same-name",
            "vk-all",
            "vk-gap",
            "vk-job",
            "vk-job-said",
            "vk-judged",
            "vk-little",
            "vk-poll",
        ],
    ),
    Set::new(
        "never-finish",
        &[
            "headroom-by-hand",
            "headroom-raise",
            "main-fails",
            "native",
            "needs-image",
            "never-0",
            "never-143",
            "never-ignores",
            "no-image",
            "not-listed",
            "onfailure-0",
            "onfailure-143",
            "onfailure-ignores",
            "only-sidecars",
            "restricted",
            "retries",
            "shell",
            "twelve",
            "two",
            "vk-inert-no",
            "vk-rejects-no",
        ],
    ),
    Set::new("prefer-finish", &["finish", "finish-many", "finish-pull"]),
    Set::new(
        "restart",
        &[
            "crr-e1",
            "crr-e2",
            "crr-e2b",
            "crr-e3",
            "crr-e3b",
            "crr-e3c",
            "crr-e4",
            "crr-e4b",
            "crr-vk-all",
            "crr-vk-inert",
            "crr-vk-little",
            "crr-vk-nodigest",
            "crr-vk-virtualinert",
            "crr-vk-virtualrejects",
            "restart-always",
            "restart-crash",
            "restart-deleted",
            "restart-native",
            "restart-never",
            "restart-onfailure",
            "restart-ordered",
            "restart-private",
            "restart-two",
        ],
    ),
    Set::new(
        "policies",
        &[
            "policies-cron",
            "policies-examples",
            "vk-policies",
            "vk-policies-inert",
        ],
    ),
    Set::new(
        "park",
        &["park-never", "park-onfailure", "restart-imported"],
    ),
];

/// The installation of a world whose case shares one.
pub struct Shared {
    set: &'static Set,
}

/// The namespaces of worlds that share an installation. Cases of one name in two processes have two
/// worlds.
static NAMES: LazyLock<Vec<(String, &'static Set)>> = LazyLock::new(|| {
    let of_set = |set: &'static Set| set.cases.iter().map(move |case| (namespace_of(case), set));
    SETS.iter().flat_map(of_set).collect()
});

/// The namespace of the world of a case.
pub fn namespace_of(case: &str) -> String {
    format!("e2e-{case}-{}", std::process::id())
}

impl Shared {
    pub fn of(namespace: &str) -> Option<Self> {
        let (_, set) = NAMES.iter().find(|(name, _)| name == namespace)?;
        Some(Self { set })
    }

    /// All its namespaces, with labels that they have in common.
    pub async fn make_namespaces(&self, client: &Client, labels: &Value) {
        self.set
            .namespaces
            .get_or_init(|| async {
                let mut labels = labels.clone();
                labels[LABEL] = json!(std::process::id().to_string());
                for case in self.set.cases {
                    let namespace = namespace_of(case);
                    audit::works_in(&namespace, &self.system_namespace());
                    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
                    let object: Namespace = serde_json::from_value(object).unwrap();
                    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
                }
            })
            .await;
    }

    /// Where it is installed itself.
    fn system_namespace(&self) -> String {
        namespace_of(&format!("shared-{}-system", self.set.name))
    }

    /// All its namespaces, as a value of the chart.
    pub fn namespaces(&self) -> String {
        self.set
            .cases
            .iter()
            .map(|case| namespace_of(case))
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Installs it where nobody has done so before. All its cases have these values.
    pub async fn install(&self, values: &str, install: impl AsyncFnOnce()) {
        let installed = self
            .set
            .values
            .get_or_init(|| async {
                install().await;
                values.to_owned()
            })
            .await;
        assert_eq!(
            installed, values,
            "its case needs an installation of its own: another one has installed that of {}",
            self.set.name
        );
    }
}
