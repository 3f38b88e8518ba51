//! Every metric is in the list of the operations guide.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use swaplet::controller::metrics::Metrics;
use swaplet::decide::reason::Reason;

use crate::markdown::root;

#[test]
fn every_metric_is_listed_and_no_other() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    // A family without a sample is not exposed.
    metrics.decided(Reason::SidecarSwapped);
    metrics.wrote("pods", "applied");
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let mut real: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(exposed).collect();
    real.sort_unstable();
    let guide = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `swaplet_"));
    let mut listed: Vec<_> = rows.map(|row| format!("swaplet_{}", row.split('`').next().unwrap())).collect();
    listed.sort_unstable();
    assert_eq!(listed, real);
}

/// The name under which a family is queried: a counter ends in `_total`.
fn exposed(family: &str) -> String {
    match family.split_once(' ').unwrap() {
        (name, "counter") => format!("{name}_total"),
        (name, _) => name.to_owned(),
    }
}
