//! As much of Prometheus as the alert rules need: it scrapes, and evaluates. What it does not know
//! is a panic.

use std::collections::BTreeMap;

use promql_parser::parser::{AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, VectorSelector};
use serde::Deserialize;

use super::sample::{Labels, Sample};

/// Seconds between two scrapes.
pub const EVERY: u32 = 15;

type Vector = Vec<(Labels, f64)>;

#[derive(Deserialize)]
struct RuleFile {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(default, rename = "for")]
    lasts: Option<String>,
}

/// The samples of all scrapes so far.
#[derive(Default)]
pub struct Prometheus {
    scrapes: Vec<Vec<Sample>>,
}

impl Prometheus {
    /// Takes up what `/metrics` says now; once in [`EVERY`] seconds.
    pub fn scrape(&mut self, text: &str) {
        self.scrapes.push(Sample::all(text));
    }

    /// The alerts of `deploy/alerts.yaml` that fire now, in the order of the file.
    pub fn firing(&self) -> Vec<String> {
        let file: RuleFile =
            serde_saphyr::from_str(include_str!("../../deploy/alerts.yaml")).unwrap();
        let rules = file.groups.into_iter().flat_map(|group| group.rules);
        rules
            .filter(|rule| self.fires(rule))
            .map(|rule| rule.alert)
            .collect()
    }

    /// Whether the expression had a value at each evaluation for as long as the rule says.
    fn fires(&self, rule: &Rule) -> bool {
        let expr = promql_parser::parser::parse(&rule.expr)
            .unwrap_or_else(|error| panic!("{}: {error}", rule.alert));
        let minutes: usize = rule
            .lasts
            .as_deref()
            .map_or(0, |lasts| lasts.strip_suffix('m').unwrap().parse().unwrap());
        let now = self.scrapes.len() - 1;
        let Some(first) = now.checked_sub(minutes * 60 / EVERY as usize) else {
            return false;
        };
        (first..=now).all(|at| !self.vector(&expr, at).is_empty())
    }

    fn vector(&self, expr: &Expr, at: usize) -> Vector {
        match expr {
            Expr::Paren(paren) => self.vector(&paren.expr, at),
            Expr::VectorSelector(selector) => self.selected(selector, at),
            Expr::Aggregate(aggregate) => self.aggregated(aggregate, at),
            Expr::Call(call) => self.called(call, at),
            Expr::Binary(binary) => self.combined(binary, at),
            other => panic!("not known here: {other}"),
        }
    }

    fn selected(&self, selector: &VectorSelector, at: usize) -> Vector {
        let label =
            |sample: &Sample, name: &str| sample.labels.get(name).cloned().unwrap_or_default();
        let is_it = |sample: &&Sample| {
            let mut matchers = selector.matchers.matchers.iter();
            selector.name.as_ref() == Some(&sample.name)
                && matchers.all(|matcher| matcher.is_match(&label(sample, &matcher.name)))
        };
        self.scrapes[at]
            .iter()
            .filter(is_it)
            .map(|sample| (sample.labels.clone(), sample.value))
            .collect()
    }

    fn aggregated(&self, aggregate: &AggregateExpr, at: usize) -> Vector {
        let Some(LabelModifier::Include(by)) = &aggregate.modifier else {
            panic!("not known here: {aggregate}")
        };
        let mut groups: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
        for (mut labels, value) in self.vector(&aggregate.expr, at) {
            labels.retain(|name, _| by.labels.contains(name));
            groups.entry(labels).or_default().push(value);
        }
        let one = |values: Vec<f64>| match &*aggregate.op.to_string() {
            "sum" => values.into_iter().sum(),
            "max" => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
            other => panic!("not known here: {other}"),
        };
        groups
            .into_iter()
            .map(|(labels, values)| (labels, one(values)))
            .collect()
    }

    fn called(&self, call: &Call, at: usize) -> Vector {
        let name = call.func.name;
        if name == "absent" {
            return if self.vector(&call.args.args[0], at).is_empty() {
                vec![(Labels::new(), 1.0)]
            } else {
                Vec::new()
            };
        }
        let Expr::MatrixSelector(matrix) = &*call.args.args[0] else {
            panic!("not known here: {call}")
        };
        let steps = usize::try_from(matrix.range.as_secs() / u64::from(EVERY)).unwrap();
        let mut series: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
        for then in at.saturating_sub(steps - 1)..=at {
            self.selected(&matrix.vs, then)
                .into_iter()
                .for_each(|(labels, value)| series.entry(labels).or_default().push(value));
        }
        // Of one sample Prometheus says nothing.
        series
            .into_iter()
            .filter(|(_, values)| values.len() > 1)
            .map(|(labels, values)| (labels, over_time(name, &values)))
            .collect()
    }

    fn combined(&self, binary: &BinaryExpr, at: usize) -> Vector {
        let left = self.vector(&binary.lhs, at);
        let op = binary.op.to_string();
        if let Expr::NumberLiteral(number) = &*binary.rhs {
            let holds = |value: f64| match &*op {
                ">" => value > number.val,
                "<" => value < number.val,
                other => panic!("not known here: {other}"),
            };
            return left
                .into_iter()
                .filter(|(_, value)| holds(*value))
                .collect();
        }
        let right: BTreeMap<_, _> = self.vector(&binary.rhs, at).into_iter().collect();
        let with = |(labels, value): (Labels, f64)| {
            let other = right.get(&labels)?;
            let value = match &*op {
                "and" => value,
                "/" => value / other,
                other => panic!("not known here: {other}"),
            };
            Some((labels, value))
        };
        left.into_iter().filter_map(with).collect()
    }
}

/// Without the extrapolation to the ends of the range that Prometheus does; samples come at even
/// intervals.
fn over_time(function: &str, values: &[f64]) -> f64 {
    let rises: f64 = values
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).max(0.0))
        .sum();
    let seconds = f64::from(EVERY) * f64::from(u32::try_from(values.len() - 1).unwrap());
    match function {
        "increase" => rises,
        "rate" => rises / seconds,
        "deriv" => slope(values) / f64::from(EVERY),
        other => panic!("not known here: {other}"),
    }
}

/// By linear regression, per step.
fn slope(values: &[f64]) -> f64 {
    let count = f64::from(u32::try_from(values.len()).unwrap());
    let steps = || (0..u32::try_from(values.len()).unwrap()).map(f64::from);
    let (mean, middle) = (values.iter().sum::<f64>() / count, (count - 1.0) / 2.0);
    let together: f64 = steps()
        .zip(values)
        .map(|(step, value)| (step - middle) * (value - mean))
        .sum();
    together / steps().map(|step| (step - middle).powi(2)).sum::<f64>()
}
