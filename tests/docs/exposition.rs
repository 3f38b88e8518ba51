//! What `/metrics` of a controller shows that has done everything once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use swaplet::controller::index::Timed;
use swaplet::controller::metrics::Metrics;
use swaplet::controller::serve::{Health, serve};
use swaplet::decide::ladder::Rung;
use swaplet::decide::node_class::NodeClass;
use swaplet::decide::node_verdicts::Proved;
use swaplet::decide::reason::Reason;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// One metric, under the name by which it is queried; a histogram without `_bucket`, `_sum` and `_count`.
#[derive(Debug, Default)]
pub struct Family {
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// Sorted, without `le`.
    pub labels: Vec<String>,
}

/// The metrics by their names.
pub struct Exposition {
    pub families: BTreeMap<String, Family>,
}

impl Exposition {
    pub async fn of_a_controller() -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        // A family without a sample is not exposed.
        metrics.decided(Reason::SidecarSwapped);
        metrics.kept(Reason::MainsRunning, 1);
        metrics.sends("pods").answered("applied");
        metrics.learned(Proved::Rejects, NodeClass::Unknown);
        metrics.watch_trouble("pods");
        let _age = metrics.watch_ages.begin("pods");
        let timed = Timed { after: Duration::from_secs(2), method: Rung::Swap, class: NodeClass::Kubelet };
        metrics.written_after(timed);
        metrics.ended_after(timed);
        Self::read(&scrape(registry).await)
    }

    fn read(text: &str) -> Self {
        let mut families = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let starts = format!("{name}{suffix}");
            let samples =
                text.lines().filter(|line| line.starts_with(&format!("{starts}{{")) || line.starts_with(&format!("{starts}_bucket{{")));
            let labels: BTreeSet<_> = samples.flat_map(labels_of).filter(|label| label != "le").collect();
            families.insert(starts, Family { kind: kind.to_owned(), labels: labels.into_iter().collect() });
        }
        assert!(!families.is_empty(), "{text}");
        Self { families }
    }
}

/// Over HTTP, as Prometheus does it.
async fn scrape(registry: Registry) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve(listener, Arc::new(registry), Health::default()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: swaplet\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    server.abort();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
    body.to_owned()
}

/// The names of the labels of a sample.
fn labels_of(sample: &str) -> Vec<String> {
    let labels = sample.split_once('{').unwrap().1.split_once('}').unwrap().0;
    labels.split("\",").map(|label| label.split_once('=').unwrap().0.to_owned()).collect()
}
