//! What `/metrics` of a controller shows that has done everything once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use swaplet_controller::frame::metrics::{Metrics, Timed};
use swaplet_controller::frame::serve::{Health, serve};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::report::decision::Method;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::ending::{Code, Ends, SidecarEnd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::sample::Sample;

/// One metric, under the name by which it is queried; a histogram without `_bucket`, `_sum` and
/// `_count`.
#[derive(Debug, Default)]
pub struct Family {
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// Sorted, without `le`.
    pub labels: Vec<String>,
}

/// The metrics by their names, and every sample.
pub struct Exposition {
    pub families: BTreeMap<String, Family>,
    pub samples: Vec<Sample>,
}

impl Exposition {
    pub async fn of_a_controller() -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        // A family without a sample is not exposed.
        Reason::ALL
            .into_iter()
            .for_each(|reason| metrics.kept(reason, 1));
        metrics.sends("pods").answered("applied");
        let _age = metrics.watch_ages.begin("pods");
        let timed = Timed {
            after: Duration::from_secs(2),
            method: Method::Swap,
            class: NodeClass::Kubelet,
        };
        metrics.written_after(timed);
        metrics.ended_after(timed);
        let end = SidecarEnd {
            method: Some(Method::Swap),
            code: Code::Zero,
            after: Some(timed.after),
        };
        let ends = Ends {
            sidecars: vec![end],
            pod_after: Some(timed.after),
        };
        metrics.ended_with(&ends, timed);
        metrics.pulled(Duration::from_secs(2));
        Self::read(&scrape(registry).await)
    }

    fn read(text: &str) -> Self {
        let samples = Sample::all(text);
        assert!(
            samples.iter().all(|sample| sample.value.is_finite()),
            "{text}"
        );
        let families = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .map(|line| family(line, &samples))
            .collect();
        Self { families, samples }
    }
}

/// `name type`
fn family(line: &str, samples: &[Sample]) -> (String, Family) {
    let (name, kind) = line.split_once(' ').unwrap();
    let name = match kind {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    };
    let of_it = samples
        .iter()
        .filter(|sample| sample.name.strip_suffix("_bucket").unwrap_or(&sample.name) == name);
    let labels: BTreeSet<_> = of_it
        .flat_map(|sample| sample.labels.keys().cloned())
        .filter(|label| label != "le")
        .collect();
    (
        name,
        Family {
            kind: kind.to_owned(),
            labels: labels.into_iter().collect(),
        },
    )
}

/// Over HTTP, as Prometheus does it.
async fn scrape(registry: Registry) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve(listener, Arc::new(registry), Health::default()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: swaplet\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    server.abort();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"),
        "{head}"
    );
    body.to_owned()
}
