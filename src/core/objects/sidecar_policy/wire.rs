//! The reader of a policy as it is written.

use std::time::Duration;

use kube_core::Selector;
use serde::Deserialize;
use serde_json::Value;

use super::{CLOSED, MOST_OWNER_KINDS, MOST_RULES, PolicyKind, PolicyRule, SidecarPolicy, Subject};
use crate::image::reference::ImageReference;
use crate::objects::pod::{PolicyRule as Place, RuleMethod, RuleSource, SidecarRule};
use crate::objects::values::bounded_object::BoundedObject;
use crate::objects::values::bounds::cut;
use crate::objects::values::label_selector;
use crate::objects::values::problems::{Problem, Problems};

/// The bytes of the longest pattern of names, and of images, and of the longest exit image.
const LONGEST_NAME: usize = 63;
const LONGEST_IMAGE: usize = 512;
const LONGEST_REFERENCE: usize = 1024;
/// The most stars of a pattern: each costs time with each container.
const MOST_STARS: usize = 8;
/// The bytes of the longest name of a kind.
const LONGEST_KIND: usize = 63;
/// The most requirements and values of a selector.
const MOST_REQUIREMENTS: usize = 1024;
/// The longest time, in seconds.
const LONGEST: i64 = 86_400;
const MOST_ORDER: i64 = 1000;
/// The bytes of a value that are shown to recognise it.
const SHOWN: usize = 80;

impl SidecarPolicy {
    /// Reads a policy. `None` if it has no name or uid, or no namespace although it needs one.
    pub fn read(kind: PolicyKind, object: BoundedObject) -> Option<Self> {
        let metadata = object.metadata;
        let text = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Box::from);
        let namespace = match kind {
            PolicyKind::Namespaced => text(metadata.namespace)?,
            PolicyKind::Cluster => Box::default(),
        };
        let name: Box<str> = text(metadata.name)?;
        let place = |nth| Place {
            namespace: (kind == PolicyKind::Namespaced).then(|| namespace.clone()),
            name: name.clone(),
            nth,
            preset: None,
        };
        let spec = &object.data["spec"];
        let mut problems = Problems::default();
        if CLOSED.contains(&&*namespace) {
            let words = format!("metadata.namespace: no policy counts in {namespace}");
            problems.0.push(words);
        }
        let namespaces = match (kind, &spec["namespaceSelector"]) {
            (PolicyKind::Namespaced, _) | (_, Value::Null) => Some(None),
            (PolicyKind::Cluster, written) => problems
                .note("namespaceSelector", selector(written))
                .map(Some),
        };
        let pods = problems.note("podSelector", selector(&spec["podSelector"]));
        let owner_kinds = problems.note("ownerKinds", owner_kinds(&spec["ownerKinds"]));
        let rules = problems
            .note("sidecars", list(&spec["sidecars"]))
            .unwrap_or_default();
        let read_rule = |(nth, written): (usize, &Value)| {
            let field = format!("sidecars[{nth}]");
            let mut rule = problems.note(&field, rule(place(nth), written))?;
            // The container is still to be ended, like with an image that is not on the list.
            let image = rule.ending.exit_image.take();
            rule.ending.exit_image = image.and_then(|image| {
                let read = ImageReference::parse(&image).map(|_| image);
                let read = read.map_err(|error| format!("it counts as absent: {error}"));
                problems.note(&format!("{field}.exitImage"), read)
            });
            Some(rule)
        };
        let mut rules: Vec<_> = rules.iter().enumerate().filter_map(read_rule).collect();
        let (namespaces, pods, owner_kinds) =
            if let (Some(namespaces), Some(pods), Some(kinds)) = (namespaces, pods, owner_kinds) {
                (namespaces, pods, kinds)
            } else {
                rules.clear();
                (None, Selector::default(), Vec::new())
            };
        Some(Self {
            kind,
            namespace,
            name,
            uid: text(metadata.uid)?,
            generation: metadata.generation.unwrap_or_default(),
            namespaces,
            pods,
            owner_kinds,
            rules,
            problems: problems.0,
            ended: object.data["status"]["ended"].as_u64().unwrap_or_default(),
        })
    }
}

fn selector(written: &Value) -> Result<Selector, Problem> {
    label_selector::read(written, MOST_REQUIREMENTS)
}

fn owner_kinds(written: &Value) -> Result<Vec<Box<str>>, Problem> {
    if written.is_null() {
        return Ok(vec!["Job".into()]);
    }
    let form = || {
        format!(
            "write 1 to {MOST_OWNER_KINDS} kinds, such as Job or TaskRun, None for pods without a controller, or *"
        )
    };
    let kinds = written.as_array().ok_or_else(form)?;
    let kinds: Option<Vec<_>> = kinds
        .iter()
        .map(|kind| {
            kind.as_str()
                .filter(|kind| !kind.is_empty() && kind.len() <= LONGEST_KIND)
                .map(Box::from)
        })
        .collect();
    kinds
        .filter(|kinds| (1..=MOST_OWNER_KINDS).contains(&kinds.len()))
        .ok_or_else(form)
}

fn list(written: &Value) -> Result<&[Value], Problem> {
    written
        .as_array()
        .filter(|rules| (1..=MOST_RULES).contains(&rules.len()))
        .map(Vec::as_slice)
        .ok_or_else(|| format!("write 1 to {MOST_RULES} rules, each with preset, name or image"))
}

/// One of `spec.sidecars`, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleWire {
    preset: Option<Box<str>>,
    name: Option<Box<str>>,
    image: Option<Box<str>>,
    method: Option<Box<str>>,
    exit_image: Option<Box<str>>,
    delay_seconds: Option<i64>,
    wait_for_exit: Option<WaitWire>,
    order: Option<i64>,
    main_must_succeed: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WaitWire {
    deadline_seconds: Option<i64>,
}

fn rule(place: Place, written: &Value) -> Result<PolicyRule, Problem> {
    let rule =
        RuleWire::deserialize(written).map_err(|error| format!("it is not a rule: {error}"))?;
    let method = match rule.method.as_deref() {
        None => RuleMethod::default(),
        Some(word) => word.parse().map_err(|_| {
            format!(
                "method {:?} is not known: write Auto, Swap, Finish or Leave",
                cut(word, SHOWN)
            )
        })?,
    };
    let delay = number("delaySeconds", rule.delay_seconds.unwrap_or(0), 0, LONGEST)?;
    let wait = match rule.wait_for_exit {
        None => 0,
        Some(wait) => {
            let seconds = wait.deadline_seconds.ok_or(
                "waitForExit has no deadlineSeconds: write how long the sidecar may take to end by itself",
            )?;
            number("deadlineSeconds", seconds, 1, LONGEST)?
        }
    };
    let order = number("order", rule.order.unwrap_or(0), -MOST_ORDER, MOST_ORDER)?;
    let seconds = |value: i64| Duration::from_secs(value.try_into().unwrap_or_default());
    let exit_image = text("exitImage", rule.exit_image, LONGEST_REFERENCE)?;
    let subject = subject(rule.preset, rule.name, rule.image)?;
    let preset = match &subject {
        Subject::Preset(preset) => Some(preset.clone()),
        Subject::Named { .. } => None,
    };
    Ok(PolicyRule {
        nth: place.nth,
        subject,
        ending: SidecarRule {
            source: RuleSource::Policy(Place { preset, ..place }),
            method,
            exit_image,
            delay: seconds(delay),
            wait_for_exit: seconds(wait),
            order: i32::try_from(order).unwrap_or_default(),
            main_must_succeed: rule.main_must_succeed.unwrap_or_default(),
        },
    })
}

fn subject(
    preset: Option<Box<str>>,
    name: Option<Box<str>>,
    image: Option<Box<str>>,
) -> Result<Subject, Problem> {
    let preset = text("preset", preset, LONGEST_NAME)?;
    let name = pattern("name", name, LONGEST_NAME)?;
    let image = pattern("image", image, LONGEST_IMAGE)?;
    match (preset, name, image) {
        (Some(preset), None, None) => Ok(Subject::Preset(preset)),
        (None, None, None) => {
            Err("it selects no container: write preset, name or image".to_owned())
        }
        (None, name, image) => Ok(Subject::Named { name, image }),
        (Some(_), _, _) => Err("preset is set with name or image: write one of them".to_owned()),
    }
}

/// Checks a pattern, if there is one.
fn pattern(
    field: &str,
    pattern: Option<Box<str>>,
    most: usize,
) -> Result<Option<Box<str>>, Problem> {
    let pattern = text(field, pattern, most)?;
    let stars = pattern
        .as_ref()
        .map_or(0, |pattern| pattern.matches('*').count());
    if stars > MOST_STARS {
        return Err(format!(
            "{field} has {stars} times *: write at most {MOST_STARS}"
        ));
    }
    Ok(pattern)
}

/// Checks that a text, if there is one, is neither empty nor too long.
fn text(field: &str, text: Option<Box<str>>, most: usize) -> Result<Option<Box<str>>, Problem> {
    match text {
        Some(text) if !(1..=most).contains(&text.len()) => {
            Err(format!("{field} is not a string of 1 to {most} bytes"))
        }
        text => Ok(text),
    }
}

fn number(field: &str, value: i64, least: i64, most: i64) -> Result<i64, Problem> {
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(format!("{field} is not a number from {least} to {most}")),
    }
}
