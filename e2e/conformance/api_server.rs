//! The embedded API server against kube-apiserver.
//!
//! A sequence is a dozen requests on a few objects, among them many that must be refused. Both
//! servers get the same bytes (but for ids and versions, which each has given itself); status codes
//! and whole bodies are compared, and then what a watch from before the first request tells.
//! Nothing on the real cluster acts on the objects: pods are on nodes that are not there (each
//! sequence has its own, for the pod collector empties a node that it misses after a while) or wait
//! for a scheduler that is not, jobs are managed by nobody.

mod batch;
mod operation;
mod parts;
mod pods;
mod sequence;
pub mod side;
mod small;
mod status;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use kube::Client;
use serde_json::{Value, json};
use swaplet_testbed::{ApiServer, Clock};

use crate::differences::API_SERVER;
use crate::shared::compare::{Difference, differences};
use crate::shared::known::KnownList;
use crate::shared::mask::Mask;
use crate::shared::random::{Random, numbers, only, seed};
use crate::shared::runner::{Pair, run};
use sequence::Sequence;
use side::Side;

/// Namespaces on the real server, and so sequences at once.
const PLACES: usize = 8;

#[tokio::test]
async fn api_server() {
    let servers = Servers::new().await;
    let numbers = numbers();
    let known = KnownList::new(API_SERVER);
    let report = AssertUnwindSafe(run(&servers, &numbers, PLACES.min(numbers.len()), &known))
        .catch_unwind()
        .await;
    servers.clean().await;
    let report = report.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    report.print("api server", seed(), &known);
    assert!(
        report.is_clean(),
        "the embedded API server differs from the real one"
    );
}

struct Servers {
    seed: u64,
    real: Client,
    namespaces: Vec<String>,
    /// Runs so far: each has names of its own.
    runs: AtomicUsize,
}

impl Servers {
    async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let real = Client::try_default()
            .await
            .expect("KUBECONFIG: run `eval \"$(e2e/cluster env)\"` first");
        let namespaces: Vec<_> = (0..PLACES)
            .map(|place| format!("conformance-{}-{place}", std::process::id()))
            .collect();
        for namespace in &namespaces {
            side::prepare(&real, namespace).await;
        }
        Self {
            seed: seed(),
            real,
            namespaces,
            runs: AtomicUsize::new(0),
        }
    }

    async fn clean(&self) {
        for namespace in &self.namespaces {
            side::clean(&self.real, namespace).await;
        }
    }

    async fn embedded(namespace: &str) -> Client {
        let client = ApiServer::new(Clock::default()).client();
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        side::send(
            &client,
            "POST",
            "/api/v1/namespaces",
            "application/json",
            body.to_string(),
        )
        .await;
        client
    }
}

impl Pair for Servers {
    type Case = Sequence;

    const ATTEMPTS: usize = 60;

    fn case(&self, number: usize) -> Sequence {
        Sequence::new(&mut Random::of_sequence(self.seed, number))
    }

    fn size(case: &Sequence) -> usize {
        case.operations.len() + case.watches.len()
    }

    fn smaller(case: &Sequence) -> Vec<Sequence> {
        case.smaller()
    }

    async fn run(&self, case: &Sequence, place: usize) -> Vec<Difference> {
        let namespace = &self.namespaces[place];
        let prefix = format!("s{}-", self.runs.fetch_add(1, Ordering::Relaxed));
        let embedded = Self::embedded(namespace).await;
        let real = answers(&mut Side::new(self.real.clone(), namespace, &prefix), case).await;
        let fake = answers(&mut Side::new(embedded, namespace, &prefix), case).await;
        let names = case.names();
        if only().is_some() {
            print(&names, &real, &fake);
        }
        let pairs = real.iter().zip(&fake).zip(names).enumerate();
        pairs
            .flat_map(|(step, ((real, fake), operation))| compare(step, &operation, real, fake))
            .collect()
    }
}

/// What one server says to the sequence, masked.
async fn answers(side: &mut Side, case: &Sequence) -> Vec<Value> {
    let start = side.version().await;
    let mut answers = Vec::new();
    for operation in &case.operations {
        answers.push(side.run(operation).await);
    }
    for watch in &case.watches {
        answers.push(side.watch(watch, &start).await);
    }
    Mask::answers(&answers)
}

fn compare(step: usize, operation: &str, real: &Value, fake: &Value) -> Vec<Difference> {
    // Where one refuses and the other does not, comparing the bodies shows nothing.
    let parts = if real["code"] == fake["code"] {
        differences("", real, fake)
    } else {
        vec![("code".to_owned(), real.clone(), fake.clone())]
    };
    let difference = |(path, real, fake): (String, Value, Value)| {
        let path = path.trim_start_matches('.').to_owned();
        Difference {
            step,
            operation: operation.to_owned(),
            path,
            real,
            fake,
        }
    };
    parts.into_iter().map(difference).collect()
}

fn print(names: &[String], real: &[Value], fake: &[Value]) {
    for (step, name) in names.iter().enumerate() {
        println!(
            "step {step} ({name})\n   real {}\n   fake {}",
            real[step], fake[step]
        );
    }
}
