//! What the dashboard and the alert rules ask for is exposed, with the labels by which they ask.

use std::collections::BTreeSet;

use promql_parser::parser::{Expr, LabelModifier, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::Value;
use swaplet_core::report::reason::Reason;

use crate::exposition::Exposition;
use crate::markdown::root;
use crate::sample::Sample;

/// What Prometheus adds to each sample.
const OF_THE_TARGET: &str = "namespace";

/// All selectors of an expression, and all labels that it groups by.
#[derive(Default)]
struct Asked {
    selectors: Vec<VectorSelector>,
    labels: BTreeSet<String>,
}

impl ExprVisitor for Asked {
    type Error = String;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, String> {
        match expr {
            Expr::VectorSelector(selector) => self.selectors.push(selector.clone()),
            Expr::MatrixSelector(matrix) => self.selectors.push(matrix.vs.clone()),
            Expr::Aggregate(aggregate) => match &aggregate.modifier {
                Some(LabelModifier::Include(by)) => self.labels.extend(by.labels.iter().cloned()),
                Some(LabelModifier::Exclude(_)) => {
                    return Err("without (...) hides what is left".to_owned());
                }
                None => {}
            },
            _ => {}
        }
        Ok(true)
    }
}

impl Asked {
    fn by(query: &str) -> Self {
        let expr =
            promql_parser::parser::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let mut asked = Self::default();
        walk_expr(&mut asked, &expr).unwrap_or_else(|error| panic!("{query}: {error}"));
        asked
    }

    fn is_exposed(&self, query: &str, exposed: &Exposition) {
        assert!(!self.selectors.is_empty(), "{query}");
        for selector in &self.selectors {
            let named: Vec<_> = exposed
                .samples
                .iter()
                .filter(|sample| Some(&sample.name) == selector.name.as_ref())
                .collect();
            assert!(
                !named.is_empty(),
                "{query}: there is no {:?}",
                selector.name
            );
            for label in self.labels.iter().filter(|label| *label != OF_THE_TARGET) {
                assert!(
                    named.iter().all(|sample| sample.labels.contains_key(label)),
                    "{query}: {:?} has no label {label}",
                    selector.name
                );
            }
            for matcher in selector
                .matchers
                .matchers
                .iter()
                .filter(|matcher| matcher.name != OF_THE_TARGET)
            {
                // Each of the values, also of those that a regular expression lists.
                for value in matcher.value.split('|') {
                    let has = |sample: &&Sample| {
                        sample
                            .labels
                            .get(&matcher.name)
                            .is_some_and(|found| found == value)
                    };
                    assert!(
                        named.iter().any(has),
                        "{query}: nothing has {}={value}",
                        matcher.name
                    );
                }
            }
        }
    }

    /// What a text says of labels is among those that are grouped by.
    fn names_labels(&self, text: &str, before: &str) {
        for part in text.split(before).skip(1) {
            let label: String = part
                .chars()
                .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
                .collect();
            assert!(self.labels.contains(&label), "{text}: {label}");
        }
    }
}

fn alerts() -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("deploy/alerts.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    file["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

#[tokio::test]
async fn what_the_alert_rules_ask_for_is_exposed() {
    let exposed = Exposition::of_a_controller().await;
    for alert in alerts() {
        let query = alert["expr"].as_str().unwrap();
        let asked = Asked::by(query);
        asked.is_exposed(query, &exposed);
        for text in ["summary", "description"] {
            asked.names_labels(alert["annotations"][text].as_str().unwrap(), "$labels.");
        }
    }
}

#[tokio::test]
async fn what_the_dashboard_asks_for_is_exposed_and_it_shows_every_metric() {
    let exposed = Exposition::of_a_controller().await;
    let dashboard: Value = serde_json::from_str(
        &std::fs::read_to_string(root().join("deploy/dashboard.json")).unwrap(),
    )
    .unwrap();
    let mut shown = BTreeSet::new();
    for target in dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
    {
        let query = target["expr"]
            .as_str()
            .unwrap()
            .replace("$__rate_interval", "5m");
        let asked = Asked::by(&query);
        asked.is_exposed(&query, &exposed);
        asked.names_labels(target["legendFormat"].as_str().unwrap(), "{{");
        shown.extend(asked.selectors.into_iter().map(|selector| {
            selector
                .name
                .unwrap()
                .trim_end_matches("_bucket")
                .to_owned()
        }));
    }
    assert_eq!(shown, exposed.families.keys().cloned().collect());
}

#[test]
fn the_alert_for_pods_that_need_a_hand_names_all_reasons_that_do() {
    let rules = alerts();
    let rule = rules
        .iter()
        .find(|rule| rule["alert"] == "SwapletNeedsAHand")
        .unwrap();
    let asked = Asked::by(rule["expr"].as_str().unwrap());
    let named: BTreeSet<_> = asked.selectors[0].matchers.matchers[0]
        .value
        .split('|')
        .map(str::to_owned)
        .collect();
    // What is left to somebody else is no trouble, and two have alerts of their own.
    let has_its_own =
        |reason: &Reason| matches!(reason, Reason::WriteDenied | Reason::DecisionFailed);
    let needs =
        |reason: &Reason| reason.needs_a_hand() && reason.is_warning() && !has_its_own(reason);
    assert_eq!(
        named,
        Reason::ALL
            .into_iter()
            .filter(needs)
            .map(|reason| reason.to_string())
            .collect()
    );
}

#[test]
fn every_alert_is_in_the_operations_guide() {
    let guide = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let listed: BTreeSet<_> = guide
        .lines()
        .filter_map(|line| line.strip_prefix("| `Swaplet")?.split('`').next())
        .map(str::to_owned)
        .collect();
    let names = alerts()
        .iter()
        .map(|rule| {
            rule["alert"]
                .as_str()
                .unwrap()
                .trim_start_matches("Swaplet")
                .to_owned()
        })
        .collect();
    assert_eq!(listed, names);
}
