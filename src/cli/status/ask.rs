//! The checks of one installation.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use swaplet_controller::frame::connection::discovery::ask as discover;
use swaplet_controller::frame::lease::LEASE;
use swaplet_controller::frame::list::{list, words};
use tokio::time::timeout;

use super::installation::{Flags, Installation};
use super::policies::{self, Policies};
use super::rights::{Right, least, needed};
use crate::cli::image::RegistryArgs;
use crate::image::reference::ImageReference;
use crate::image::registry::Registry;

/// The maximum number of concurrent requests.
const AT_ONCE: usize = 8;
/// The group of the CRDs.
const GROUP: &str = "apps.kruise.io/v1alpha1";
/// The deadline of one request to a registry.
const REGISTRY: Duration = Duration::from_secs(15);
/// The suffix of the policy that each set of admission policies has.
const PODS: &str = "-pods";
/// The variable of the same policy with the containers that are open to SidecarPolicies.
const POLICY_SIDECARS: &str = "policySidecars";

/// An installation with the results of the checks. An error is the reason why there is no result.
pub(super) struct Asked {
    pub(super) installation: Installation,
    /// The state of its Lease; `None` if it uses none.
    pub(super) lease: Option<Result<Held, String>>,
    /// Each right that it needs, or some if its flags are unknown; `None` if it is unknown whether it
    /// has it.
    pub(super) rights: Vec<(Right, Option<bool>)>,
    pub(super) policies: Result<Leash, String>,
    pub(super) sidecar_policies: Policies,
    /// Each CRD that it needs, and whether it is installed.
    pub(super) crds: Result<Vec<(&'static str, bool)>, String>,
    /// True if the registry has the exit image; `None` if that was not checked.
    pub(super) registry: Option<Result<bool, String>>,
    /// True if it can be pulled without credentials; `None` if that was not asked.
    pub(super) public: Option<Result<bool, String>>,
}

/// The state of a Lease.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The holder; empty if there is none.
    pub holder: String,
    pub(super) renewed: Option<Timestamp>,
}

/// A Lease that was renewed within this time is held: longer than its term, because clocks differ.
const HELD_SECONDS: i64 = 60;

impl Held {
    /// Returns true if it is held by somebody who works, as far as clocks agree.
    pub fn is_held(&self, now: Timestamp) -> bool {
        let is_fresh = |renewed: Timestamp| renewed.duration_until(now).as_secs() <= HELD_SECONDS;
        !self.holder.is_empty() && self.renewed.is_some_and(is_fresh)
    }
}

/// The admission policies for an account, by the suffix of their names, and whether each is bound
/// with the action `Deny`.
#[derive(Clone, Debug, Default)]
pub struct Leash {
    /// The prefix of their names; empty if there are none.
    pub(super) name: String,
    pub(super) policies: BTreeMap<String, bool>,
    /// The names and patterns of containers that they open to SidecarPolicies; `None` if they are
    /// not written as in this version.
    pub opened: Option<Vec<String>>,
}

impl Asked {
    /// Returns true if an administrator has granted it any right: anybody who may create
    /// Deployments can make one that looks like an installation.
    pub(super) fn has_some_right(&self) -> bool {
        has_some(&self.rights)
    }

    /// Returns true if it is another installation that waits for the same Lease.
    pub(super) fn shares_lease_of(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.installation, &other.installation);
        self.has_some_right()
            && self.lease.is_some()
            && other.lease.is_some()
            && ours.place() != theirs.place()
            && ours.state_namespace() == theirs.state_namespace()
    }
}

fn has_some(rights: &[(Right, Option<bool>)]) -> bool {
    rights.is_empty() || rights.iter().any(|(_, may)| *may != Some(false))
}

/// Runs all checks of an installation.
pub(super) async fn asked(
    client: &Client,
    installation: Installation,
    registry: Option<&RegistryArgs>,
) -> Asked {
    let flags = installation.flags.clone().unwrap_or_default();
    let leads = flags.is_on("leader-elect");
    let namespace = flags.one("state-namespace").filter(|_| leads);
    let lease = async {
        match namespace {
            Some(namespace) => Some(lease(client, namespace).await),
            None => None,
        }
    };
    let rights = if installation.flags.is_ok() {
        needed(&flags)
    } else {
        least(&installation.namespace)
    };
    let rights = futures::stream::iter(rights)
        .map(|right| {
            let installation = &installation;
            async move {
                let may = installation.may(client, right.attributes()).await;
                (right, may)
            }
        })
        .buffered(AT_ONCE)
        .collect::<Vec<_>>();
    let rights_and_registry = async {
        let rights = rights.await;
        // Anybody who may create Deployments can name a registry: one in this network, say.
        let registry = registry.filter(|_| has_some(&rights));
        let answers = tokio::join!(in_registry(registry, &flags), public(registry, &flags));
        (rights, answers)
    };
    let (lease, (rights, (registry, public)), policies, sidecar_policies, crds) = tokio::join!(
        lease,
        rights_and_registry,
        leash(client, &installation),
        policies::read(client, &flags),
        crds(client, &flags)
    );
    let crds = crds.map(|mut all| {
        all.extend(sidecar_policies.kinds());
        all
    });
    Asked {
        installation,
        lease,
        rights,
        policies,
        sidecar_policies,
        crds,
        registry,
        public,
    }
}

/// Reads the Lease of this namespace.
///
/// # Errors
/// It cannot be read.
pub async fn lease(client: &Client, namespace: &str) -> Result<Held, String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get_opt(LEASE).await.map_err(|error| words(&error))?;
    let spec = lease.and_then(|lease| lease.spec).unwrap_or_default();
    Ok(Held {
        holder: spec.holder_identity.unwrap_or_default(),
        renewed: spec.renew_time.map(|time| time.0),
    })
}

/// Finds the admission policies: those whose policy of pods applies to the account.
pub async fn leash(client: &Client, installation: &Installation) -> Result<Leash, String> {
    let account = format!(
        "system:serviceaccount:{}:{}\"",
        installation.namespace, installation.account
    );
    let is_about = |policy: &ValidatingAdmissionPolicy| {
        let conditions = policy
            .spec
            .as_ref()
            .and_then(|spec| spec.match_conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| condition.expression.contains(&account))
    };
    let named = |policy: ValidatingAdmissionPolicy| {
        let about = is_about(&policy).then(|| opened(&policy));
        policy.metadata.name.map(|name| (name, about))
    };
    let api: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let policies = match list(&api, "", named).await {
        // An older API server has no such policies.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        listed => listed.map_err(|error| words(&error))?,
    };
    let of_pods = |(name, opened): &(String, Option<Option<Vec<String>>>)| {
        Some((name.strip_suffix(PODS)?.to_owned(), opened.clone()?))
    };
    let Some((leash, opened)) = policies.iter().find_map(of_pods) else {
        return Ok(Leash::default());
    };
    let bound = bound_policies(client).await;
    let bound = bound.map_err(|error| words(&error))?;
    let parts = policies.iter().filter_map(|(name, _)| {
        let part = name.strip_prefix(&leash)?.strip_prefix('-')?;
        Some((part.to_owned(), bound.contains(name)))
    });
    Ok(Leash {
        policies: parts.collect(),
        name: leash,
        opened,
    })
}

/// Returns the names of the admission policies by which a binding denies.
///
/// # Errors
/// The bindings cannot be listed.
pub async fn bound_policies(client: &Client) -> kube::Result<Vec<String>> {
    let denies = |binding: ValidatingAdmissionPolicyBinding| {
        let spec = binding.spec?;
        let denies = spec.validation_actions?.contains(&"Deny".to_owned());
        spec.policy_name.filter(|_| denies)
    };
    list(&Api::all(client.clone()), "", denies).await
}

/// Returns the list of a variable that is nothing else: `["istio-proxy", "log-*"]`.
fn opened(policy: &ValidatingAdmissionPolicy) -> Option<Vec<String>> {
    let variables = policy.spec.as_ref()?.variables.as_ref()?;
    let list = variables
        .iter()
        .find(|variable| variable.name == POLICY_SIDECARS)?;
    serde_json::from_str(&list.expression).ok()
}

async fn crds(client: &Client, flags: &Flags) -> Result<Vec<(&'static str, bool)>, String> {
    let needed = [
        ("containerrecreaterequests", flags.is_on("restart")),
        (
            "imagepulljobs",
            flags.is_on("warm") || flags.is_on("predownload"),
        ),
        ("imagelistpulljobs", flags.is_on("warm")),
        ("sidecarsets", flags.is_on("hot-upgrade")),
    ];
    let needed: Vec<_> = needed
        .into_iter()
        .filter(|(_, is_needed)| *is_needed)
        .collect();
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let resources = discover(client, GROUP).await?;
    let there = |(name, _)| Ok((name, resources.serve_if_known(name)?));
    needed.into_iter().map(there).collect()
}

/// Asks the registry of the exit image, with a deadline.
async fn about_exit_image(
    flags: &Flags,
    ask: impl AsyncFnOnce(ImageReference) -> Result<bool, String>,
) -> Option<Result<bool, String>> {
    let image = flags.said("exit-image").first()?;
    let query = async {
        let image = ImageReference::parse(image).map_err(|error| error.to_string())?;
        ask(image).await
    };
    let answer = timeout(REGISTRY, query).await;
    Some(answer.unwrap_or_else(|_| Err("no answer in time".to_owned())))
}

/// Asks without credentials, whatever the user has.
async fn public(registry: Option<&RegistryArgs>, flags: &Flags) -> Option<Result<bool, String>> {
    let ask = registry?.hosts.ask_public();
    about_exit_image(flags, async |image| ask.ask(&image).await).await
}

async fn in_registry(
    registry: Option<&RegistryArgs>,
    flags: &Flags,
) -> Option<Result<bool, String>> {
    let registry = registry?;
    let is_there = async |image| {
        let credentials = registry
            .credentials(&image)
            .map_err(|error| error.to_string())?;
        let options = registry.hosts.options();
        let registry = Registry::connect(&image, &credentials, options).await;
        let digest = async { registry?.digest(&image).await };
        Ok(digest.await.map_err(|error| error.to_string())?.is_some())
    };
    about_exit_image(flags, is_there).await
}
