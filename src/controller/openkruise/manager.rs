//! Asks for the manager of OpenKruise: whether it is there, and with which feature gates.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::decide::openkruise::{Seen, Signals, Terminator};
use crate::objects::daemon_pod::NAMESPACE;
use crate::objects::recreate_request::{GROUP, VERSION};

/// For all answers of one look.
const ANSWER: Duration = Duration::from_secs(30);
/// The pods of the manager (its own manifest and its Helm chart agree).
const LABEL: &str = "control-plane=controller-manager";
/// Its Lease (flag `--leader-election-id`).
const LEASE: &str = "kruise-manager";
/// Its webhooks.
const WEBHOOKS: &str = "kruise-mutating-webhook-configuration";
/// What its API group has where only swaplet's CRDs (`deploy/crds`) are applied.
const OUR_RESOURCES: [&str; 3] = ["containerrecreaterequests", "imagepulljobs", "imagelistpulljobs"];

/// The manager, as it was seen last.
pub(super) struct Manager {
    client: Client,
    deployments: Api<Deployment>,
    webhooks: Api<MutatingWebhookConfiguration>,
    leases: Api<Lease>,
    /// The version of the Lease at the last look.
    renewed: Option<String>,
}

impl Manager {
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            deployments: Api::namespaced(client.clone(), NAMESPACE),
            webhooks: Api::all(client.clone()),
            leases: Api::namespaced(client.clone(), NAMESPACE),
            renewed: None,
        }
    }

    /// Whether its SidecarTerminator is on; an error is an API server that does not answer.
    pub async fn terminator(&mut self) -> Result<Terminator, String> {
        match timeout(ANSWER, self.signals()).await {
            Ok(Ok(signals)) => Ok(signals.terminator()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn signals(&mut self) -> kube::Result<Signals> {
        Ok(Signals {
            command_lines: match seen(self.deployments.list(&ListParams::default().labels(LABEL)).await)? {
                Seen::Found(list) if list.items.is_empty() => Seen::Missing,
                managers => managers.map(|list| list.items.into_iter().flat_map(command_lines).collect()),
            },
            webhooks: seen(self.webhooks.get_metadata(WEBHOOKS).await.map(drop))?,
            lease: seen(self.leases.get_metadata(LEASE).await)?.map(|lease| self.is_renewed(lease.metadata.resource_version)),
            other_kinds: self.other_kinds().await?,
        })
    }

    /// Everybody may ask this, as a rule; whom it is not told has to take them for there.
    async fn other_kinds(&self) -> kube::Result<bool> {
        let served = seen(self.client.list_api_group_resources(&format!("{GROUP}/{VERSION}")).await)?;
        let is_ours = |resource: &str| OUR_RESOURCES.contains(&resource.split('/').next().unwrap_or_default());
        Ok(match served {
            Seen::Found(list) => list.resources.iter().any(|resource| !is_ours(&resource.name)),
            Seen::Missing => false,
            Seen::Hidden => true,
        })
    }

    fn is_renewed(&mut self, version: Option<String>) -> bool {
        let before = std::mem::replace(&mut self.renewed, version);
        before.is_some() && before != self.renewed
    }
}

fn seen<T>(answer: kube::Result<T>) -> kube::Result<Seen<T>> {
    match answer {
        Ok(found) => Ok(Seen::Found(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Seen::Missing),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Seen::Hidden),
        Err(error) => Err(error),
    }
}

fn command_lines(deployment: Deployment) -> Vec<String> {
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let containers = pod.into_iter().flat_map(|pod| pod.containers);
    containers.flat_map(|container| container.command.into_iter().chain(container.args).flatten()).collect()
}
