//! Every metric is in the list of the operations guide, with its type and its labels.

use crate::exposition::Exposition;
use crate::markdown::root;

#[tokio::test]
async fn every_metric_is_listed_and_no_other() {
    let exposed = Exposition::of_a_controller().await;
    let real: Vec<_> = exposed
        .families
        .iter()
        .map(|(name, family)| (name.clone(), family.kind.clone(), family.labels.clone()))
        .collect();
    let guide = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let mut listed: Vec<_> = guide
        .lines()
        .filter(|line| line.starts_with("| `swaplet_"))
        .map(row)
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, real);
}

/// `| name | type | labels | meaning |`
fn row(line: &str) -> (String, String, Vec<String>) {
    let mut cells = line.trim_matches('|').split('|').map(str::trim);
    let mut cell = || cells.next().unwrap().to_owned();
    let (name, kind, labels) = (cell().replace('`', ""), cell(), cell());
    let mut labels: Vec<_> = labels
        .split(',')
        .map(|label| label.trim().replace('`', ""))
        .filter(|label| !label.is_empty())
        .collect();
    labels.sort_unstable();
    (name, kind, labels)
}
