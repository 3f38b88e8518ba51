//! The checks of OpenKruise's manager: whether it is there, and with which feature gates.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;
use swaplet_core::cluster::daemon_pod::NAMESPACE;
use swaplet_core::terminate::openkruise::{Seen, Signals, Terminator};
use tokio::time::timeout;

use super::News;
use crate::frame::connection::discovery::Discovery;
use crate::frame::serve::rights::Right;

/// The deadline of all requests of one check.
const ANSWER: Duration = Duration::from_secs(30);
/// The label of its Deployment (its own manifest and its Helm chart agree).
const LABEL: &str = "control-plane=controller-manager";
/// The most Deployments with that label that are read.
const MOST: u32 = 10;
/// The name of its Lease (flag `--leader-election-id`).
const LEASE: &str = "kruise-manager";
/// The name of its webhook configuration.
const WEBHOOKS: &str = "kruise-mutating-webhook-configuration";
/// The rights that the checks need.
const RIGHTS: [Right; 3] = [
    Right::ListManagers,
    Right::ReadWebhooks,
    Right::ReadLeaseOfManager,
];

/// The manager, as it was last observed.
pub(crate) struct Manager {
    discovery: Discovery,
    deployments: Api<Deployment>,
    webhooks: Api<MutatingWebhookConfiguration>,
    leases: Api<Lease>,
    /// The version of the Lease at the last check.
    renewed: Option<String>,
    /// True if the last check found neither its webhooks nor its Lease.
    found_none: bool,
    /// The rights that were missing at the last check, each with the error.
    forbidden: BTreeMap<Right, String>,
}

impl Manager {
    pub fn new(discovery: &Discovery) -> Self {
        let client = discovery.client();
        Self {
            discovery: discovery.clone(),
            deployments: Api::namespaced(client.clone(), NAMESPACE),
            webhooks: Api::all(client.clone()),
            leases: Api::namespaced(client.clone(), NAMESPACE),
            renewed: None,
            found_none: false,
            forbidden: BTreeMap::new(),
        }
    }

    /// Checks whether its SidecarTerminator is on, and which rights are missing for that. Returns
    /// an error if the API server does not answer.
    pub async fn check(&mut self) -> Result<Vec<News>, String> {
        let other_kinds = self.discovery.resources().await?.are_openkruises();
        // Where only swaplet's CRDs are, and no manager was found, none comes before its own CRDs
        // do.
        if !other_kinds && self.found_none {
            return Ok(Self::gone());
        }
        let signals = timeout(ANSWER, self.signals(other_kinds))
            .await
            .map_err(|_| "no answer in time".to_owned())?;
        let signals = signals.map_err(|error| error.to_string())?;
        self.found_none = !matches!(
            (&signals.webhooks, &signals.lease),
            (Seen::Found(()), _) | (_, Seen::Found(_))
        );
        Ok(self
            .rights(other_kinds)
            .into_iter()
            .chain([News::Terminator(signals.terminator())])
            .collect())
    }

    /// Returns what the manager shows where its CRDs are served; `None` if only another check can
    /// show whether its Lease is renewed.
    pub async fn signals_of_its_crds(&mut self) -> Result<Option<Signals>, String> {
        let is_first = self.renewed.is_none();
        let signals = timeout(ANSWER, self.signals(true))
            .await
            .map_err(|_| "no answer in time".to_owned())?;
        let signals = signals.map_err(|error| error.to_string())?;
        let is_unclear = is_first
            && matches!(signals.lease, Seen::Found(_))
            && signals.webhooks != Seen::Found(());
        Ok((!is_unclear).then_some(signals))
    }

    /// Returns the events of an absent manager: no right is missing for it.
    pub fn gone() -> Vec<News> {
        RIGHTS
            .map(News::Has)
            .into_iter()
            .chain([News::Terminator(Terminator::Absent)])
            .collect()
    }

    async fn signals(&mut self, other_kinds: bool) -> kube::Result<Signals> {
        // One page is enough: there is one manager.
        let managers = self
            .deployments
            .list(&ListParams::default().labels(LABEL).limit(MOST))
            .await;
        let webhooks = self.webhooks.get_metadata(WEBHOOKS).await;
        let lease = self.leases.get_metadata(LEASE).await;
        Ok(Signals {
            command_lines: match self.seen(Right::ListManagers, managers)? {
                Seen::Found(list) if list.items.is_empty() => Seen::Missing,
                managers => {
                    managers.map(|list| list.items.into_iter().flat_map(command_lines).collect())
                }
            },
            webhooks: self.seen(Right::ReadWebhooks, webhooks)?.map(drop),
            lease: self
                .seen(Right::ReadLeaseOfManager, lease)?
                .map(|lease| self.is_renewed(lease.metadata.resource_version)),
            other_kinds,
        })
    }

    fn rights(&self, other_kinds: bool) -> Vec<News> {
        let right = |right| match self.forbidden.get(&right) {
            Some(why) if other_kinds => News::Lacks(right, why.clone()),
            _ => News::Has(right),
        };
        RIGHTS.map(right).into()
    }

    fn seen<T>(&mut self, right: Right, answer: kube::Result<T>) -> kube::Result<Seen<T>> {
        self.forbidden.remove(&right);
        match answer {
            Ok(found) => Ok(Seen::Found(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Seen::Missing),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                self.forbidden.insert(right, status.message.clone());
                Ok(Seen::Hidden)
            }
            Err(error) => Err(error),
        }
    }

    fn is_renewed(&mut self, version: Option<String>) -> bool {
        let before = std::mem::replace(&mut self.renewed, version);
        before.is_some() && before != self.renewed
    }
}

fn command_lines(deployment: Deployment) -> Vec<String> {
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let containers = pod.into_iter().flat_map(|pod| pod.containers);
    containers
        .flat_map(|container| {
            container
                .command
                .into_iter()
                .chain(container.args)
                .flatten()
        })
        .collect()
}
