//! The check for the admission policy without which nothing is restarted: requests and pods are
//! trusted only as far as the API server keeps others from writing them.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::{Api, Client};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::is_missing_right;
use crate::frame::list::words;
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;

/// The bindings that restarts need, by their suffix to the name of the admission policy: of
/// `deploy/leash.yaml` and of `deploy/leash-parked.yaml`.
const NEEDED: [&str; 2] = ["pods", "parked"];
/// The flag that makes a controller work without it.
const WITHOUT: &str = "--restart-without-leash";
/// The interval of checks for a missing admission policy.
const AGAIN: Duration = Duration::from_secs(15);
/// The deadline of one answer of the API server.
const ANSWER: Duration = Duration::from_secs(10);

/// A gate that opens once the admission policy was found.
#[derive(Clone, Debug)]
pub struct Gate(watch::Receiver<bool>);

impl Gate {
    /// Checks for the admission policy of this name until it exists; without a name it is open.
    pub fn of(client: &Client, leash: Option<&str>, health: &Health) -> Self {
        let (sender, gate) = watch::channel(leash.is_none());
        health.has(Right::ReadLeash);
        if let Some(leash) = leash {
            let (client, leash, health) = (client.clone(), leash.to_owned(), health.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = seen(&client, &leash, &health) => drop(sender.send(true)),
                    () = sender.closed() => {}
                }
            });
        }
        Self(gate)
    }

    /// Returns when the gate is open.
    pub async fn opens(&mut self) {
        if self.0.wait_for(|open| *open).await.is_err() {
            std::future::pending().await
        }
    }

    /// Returns a stream that is started when the gate is open.
    pub fn before<T: Send + 'static>(
        &self,
        start: impl FnOnce() -> mpsc::Receiver<T> + Send + 'static,
    ) -> mpsc::Receiver<T> {
        let (listener, receiver) = mpsc::channel(1);
        let mut gate = self.clone();
        tokio::spawn(async move {
            let all = async {
                gate.opens().await;
                let mut events = start();
                while let Some(event) = events.recv().await {
                    if listener.send(event).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = all => {}
                () = listener.closed() => {}
            }
        });
        receiver
    }
}

async fn seen(client: &Client, leash: &str, health: &Health) {
    loop {
        match verify(client, leash, WITHOUT).await {
            Ok(()) => return health.has(Right::ReadLeash),
            Err(trouble) => {
                if health.lacks(Right::ReadLeash, &trouble) {
                    tracing::warn!(
                        error = trouble,
                        "{}; checking again every {} s",
                        Right::ReadLeash.without(),
                        AGAIN.as_secs()
                    );
                }
            }
        }
        sleep(AGAIN).await;
    }
}

/// Checks that the bindings of the admission policy with this name exist and deny.
///
/// # Errors
/// Returns what is missing, in words for the log or the terminal, with the fix; `without` is the
/// flag that makes the caller work without the admission policy.
pub async fn verify(client: &Client, leash: &str, without: &str) -> Result<(), String> {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    for part in NEEDED {
        let name = format!("{leash}-{part}");
        let found = timeout(ANSWER, bindings.get_opt(&name))
            .await
            .map_err(|_| format!("no answer about the leash {name}"))?;
        let binding = found.map_err(|error| may_not_look(&name, without, &words(&error)))?;
        let actions = binding
            .and_then(|binding| binding.spec)
            .and_then(|spec| spec.validation_actions);
        match actions {
            Some(actions) if actions.iter().any(|action| action == "Deny") => {}
            Some(_) => {
                return Err(format!(
                    "the ValidatingAdmissionPolicyBinding {name} does not deny; give it validationActions [Deny], or say {without}"
                ));
            }
            None => return Err(absent(&name, without)),
        }
    }
    Ok(())
}

fn absent(name: &str, without: &str) -> String {
    format!(
        "the leash is missing, so anyone could have written what requests and pods say: there is no ValidatingAdmissionPolicyBinding {name}. Apply deploy/leash.yaml and deploy/leash-parked.yaml (Kubernetes 1.30 or later), name the leash with --leash, or say {without}"
    )
}

fn may_not_look(name: &str, without: &str, words: &str) -> String {
    if is_missing_right(words) {
        return format!(
            "it is not known whether the leash is there: grant the right to get the ValidatingAdmissionPolicyBinding {name} (the ClusterRole swaplet-restart-leash of deploy/restart.yaml), or say {without}: {words}"
        );
    }
    format!("the leash {name} cannot be read: {words}")
}
