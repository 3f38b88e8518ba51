//! Whether the leash is there without which nothing is restarted: what a request or a pod says is
//! believed as far as the API server keeps others from writing it.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::{Api, Client};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::is_missing_right;
use crate::frame::list::words;
use crate::frame::serve::Health;

/// The bindings that restarts need, behind the name of the leash: of `deploy/leash.yaml` and of
/// `deploy/leash-parked.yaml`.
const NEEDED: [&str; 2] = ["pods", "parked"];
/// What is not done without it.
const REFUSED: &str = "containers are not restarted";
/// What a controller is told to do without it.
const WITHOUT: &str = "--restart-without-leash";
/// How often is looked for a leash that is not there.
const AGAIN: Duration = Duration::from_secs(15);
/// For one answer of the API server.
const ANSWER: Duration = Duration::from_secs(10);

/// Opens when the leash is seen.
#[derive(Clone, Debug)]
pub struct Gate(watch::Receiver<bool>);

impl Gate {
    /// Looks for the leash with this name until it is there; where none is named, it is open.
    #[must_use]
    pub fn of(client: &Client, leash: Option<&str>, health: &Health) -> Self {
        let (sender, gate) = watch::channel(leash.is_none());
        health.has(REFUSED);
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

    /// Comes back when it is open.
    pub async fn opens(&mut self) {
        if self.0.wait_for(|open| *open).await.is_err() {
            std::future::pending().await
        }
    }

    /// What a stream tells that begins when it is open.
    #[must_use]
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
            Ok(()) => return health.has(REFUSED),
            Err(trouble) => {
                if health.lacks(REFUSED, &trouble) {
                    tracing::warn!(
                        error = trouble,
                        "{REFUSED}; looking again every {} s",
                        AGAIN.as_secs()
                    );
                }
            }
        }
        sleep(AGAIN).await;
    }
}

/// Finds the bindings of the leash with this name, each of which has to deny.
///
/// # Errors
/// What is missing, in words for the log or the terminal, with the fix; `without` is the flag that
/// does without the leash.
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
        "the leash is not there, so what requests and pods say could be anybody's: there is no ValidatingAdmissionPolicyBinding {name}. Apply deploy/leash.yaml and deploy/leash-parked.yaml (Kubernetes 1.30 or later), name the leash with --leash, or say {without}"
    )
}

fn may_not_look(name: &str, without: &str, words: &str) -> String {
    if is_missing_right(words) {
        return format!(
            "nobody knows whether the leash is there: give the right to get the ValidatingAdmissionPolicyBinding {name} (the ClusterRole swaplet-restart-leash of deploy/restart.yaml), or say {without}: {words}"
        );
    }
    format!("the leash {name} cannot be looked for: {words}")
}
