//! The installation of swaplet in a cluster: its Deployment, the flags that it runs with, and
//! whether its account may do what it is believed for.

pub(in crate::cli) mod flags;
mod started;

use anyhow::anyhow;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::PodSpec;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use swaplet_controller::frame::list::{list_with, words};

use self::flags::Flags;

/// What its Deployment is known by.
const LABEL: &str = "app.kubernetes.io/name=swaplet";
/// Where it is looked for by those who may not look everywhere.
const USUAL_NAMESPACE: &str = "swaplet";
/// More than this are not looked at: whoever may make Deployments can give them the label.
const MOST: usize = 8;

/// One Deployment of swaplet.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Installation {
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    /// The ServiceAccount, without its namespace.
    pub(in crate::cli) account: String,
    /// `app.kubernetes.io/version`; empty where it has none.
    pub(in crate::cli) version: String,
    pub(in crate::cli) image: String,
    /// Replicas that are wanted, and those that are ready.
    pub(in crate::cli) replicas: (i32, i32),
    /// What it runs with; in words why that is not known.
    pub(in crate::cli) flags: Result<Flags, String>,
}

impl Installation {
    /// What it is called in messages.
    pub(in crate::cli) fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The namespace of its Lease and of what it keeps.
    pub(in crate::cli) fn state_namespace(&self) -> Option<&str> {
        self.flags.as_ref().ok()?.one("state-namespace")
    }

    /// Those that can be seen in this namespace, or in all.
    ///
    /// # Errors
    /// Deployments cannot be listed.
    pub(in crate::cli) async fn all(
        client: &Client,
        namespace: Option<&str>,
    ) -> kube::Result<Vec<Self>> {
        let api: Api<Deployment> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let found = list_with(&api, ListParams::default().labels(LABEL), Some).await;
        let mut deployments = match found {
            // Whoever has no Deployments has no installation.
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            other => other?,
        };
        deployments.sort_by_key(|found| found.metadata.creation_timestamp.clone());
        deployments.truncate(MOST);
        let mut all = Vec::new();
        for deployment in deployments {
            all.extend(Self::read(client, deployment).await);
        }
        Ok(all)
    }

    async fn read(client: &Client, deployment: Deployment) -> Option<Self> {
        let meta = deployment.metadata;
        let (namespace, name) = (meta.namespace?, meta.name?);
        let spec = deployment.spec?;
        let ready = deployment.status.and_then(|status| status.ready_replicas);
        let pod = spec.template.spec?;
        let labels = meta.labels.unwrap_or_default();
        let version = labels.get("app.kubernetes.io/version").cloned();
        Some(Self {
            account: account(&pod),
            version: version.unwrap_or_default(),
            image: started::container(&pod)?.image.clone().unwrap_or_default(),
            replicas: (spec.replicas.unwrap_or(1), ready.unwrap_or_default()),
            flags: started::flags(client, &namespace, &name, &pod).await,
            namespace,
            name,
        })
    }

    /// Whether its account may do this; `None` where that cannot be asked.
    pub(in crate::cli) async fn may(
        &self,
        client: &Client,
        what: ResourceAttributes,
    ) -> Option<bool> {
        let namespace = &self.namespace;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!(
                    "system:serviceaccount:{namespace}:{}",
                    self.account
                )),
                groups: Some(vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ]),
                resource_attributes: Some(what),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await.ok()?;
        Some(answer.status?.allowed)
    }
}

fn account(pod: &PodSpec) -> String {
    let named = pod.service_account_name.clone();
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "default".to_owned())
}

/// For what the flags of an installation are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Purpose {
    /// To say what it would do.
    Tell,
    /// To write its images to pods: whoever may make Deployments somewhere must not choose these.
    Write,
}

/// The installation that works on pods of a namespace, or of all, as far as it is found.
#[derive(Debug, Default)]
pub(in crate::cli) struct Found {
    pub(in crate::cli) installation: Option<Installation>,
    /// Where the flags come from, or why there are none.
    pub(in crate::cli) remarks: Vec<String>,
}

impl Found {
    /// Its flags, where they are known.
    pub(in crate::cli) fn flags(&self) -> Option<&Flags> {
        self.installation.as_ref()?.flags.as_ref().ok()
    }

    /// The namespace of what it keeps: the one that is `named` by hand, or that of its flags.
    pub(in crate::cli) fn state_namespace(&self, named: Option<&str>) -> Option<String> {
        let its = || self.installation.as_ref()?.state_namespace();
        named.or_else(its).map(str::to_owned)
    }

    /// Looks for it in its namespace if that is `named` by hand, or else in all. It counts if its
    /// account may change pods where it is asked for (`pods_of`, or everywhere): such a right only
    /// an administrator gives.
    pub(in crate::cli) async fn look(
        client: &Client,
        named: Option<&str>,
        pods_of: Option<&str>,
        purpose: Purpose,
    ) -> Self {
        let mut found = Self::default();
        let all = match seen(client, named).await {
            Ok(all) => all,
            Err(remark) => {
                found.remarks.push(remark);
                return found;
            }
        };
        let mut sure = Vec::new();
        let mut unsure = Vec::new();
        for installation in all {
            match installation.may(client, change_pods(pods_of)).await {
                Some(true) => sure.push(installation),
                Some(false) => found.remarks.push(format!(
                    "the flags of Deployment {} do not count: its account may not change these pods",
                    installation.place()
                )),
                None => unsure.push(installation),
            }
        }
        let asked = !sure.is_empty();
        found.choose(
            if asked { sure } else { unsure },
            asked || named.is_some(),
            purpose,
        );
        found
    }

    fn choose(&mut self, mut all: Vec<Installation>, is_sure: bool, purpose: Purpose) {
        let names: Vec<_> = all.iter().map(Installation::place).collect();
        let [place] = &names[..] else {
            if !names.is_empty() {
                self.remarks.push(format!(
                    "there is more than one installation ({}): name its namespace with --state-namespace",
                    names.join(", ")
                ));
            }
            return;
        };
        if !is_sure && purpose == Purpose::Write {
            self.remarks.push(format!(
                "the flags of Deployment {place} do not count, because nobody says whether its account may change these pods (that \
                 takes the right to create subjectaccessreviews): if it is yours, name its namespace with --state-namespace"
            ));
            return;
        }
        let installation = all.pop();
        match installation.as_ref().map(|found| &found.flags) {
            Some(Err(problem)) => self.remarks.push(format!(
                "the flags of Deployment {place} are not known ({problem}): pass them by hand"
            )),
            _ if is_sure => {}
            _ => self.remarks.push(format!(
                "nobody says whether the account of Deployment {place} may change these pods: it is taken for the installation"
            )),
        }
        self.installation = installation;
    }
}

fn change_pods(namespace: Option<&str>) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some("patch".to_owned()),
        resource: Some("pods".to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    }
}

/// Those that the caller may see.
async fn seen(client: &Client, named: Option<&str>) -> Result<Vec<Installation>, String> {
    let error = match Installation::all(client, named).await {
        Ok(all) => return Ok(all),
        Err(error) => error,
    };
    if named.is_none()
        && let Ok(all) = Installation::all(client, Some(USUAL_NAMESPACE)).await
    {
        return Ok(all);
    }
    Err(format!(
        "an installation of swaplet cannot be looked for ({}): pass its flags by hand, or its namespace with --state-namespace",
        words(&error)
    ))
}

/// Reads what a program needs to go on; for the callers that cannot do without.
pub(in crate::cli) fn missing(flag: &str, push: &str) -> anyhow::Error {
    anyhow!(
        "--{flag} is not given, and no installation of swaplet says it: push one with `{push}` and pass it with --{flag} IMAGE"
    )
}
