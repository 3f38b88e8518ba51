//! A `SidecarSet` of OpenKruise's API, reduced to how sidecars are hot-upgraded
//! (`apis/apps/v1beta1/sidecarset_types.go`). Its fields about injection are not read: the pair of
//! containers is in the template of the pods.
//!
//! Reading never fails as a whole: what cannot be used is a problem, which the status reports.
//! Selectors are not guessed: if one cannot be read, the set handles no pod.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::{ApiResource, GroupVersionKind, Selector, SelectorExt as _};
use serde::Deserialize;
use serde_json::Value;

use super::pod::UpgradeContainer;
use crate::image::alias::{is_same_image, original};
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;
use crate::objects::recreate_request::{GROUP, VERSION};
use crate::objects::values::amount::{Amount, Rounding};
use crate::objects::values::bounded_object::BoundedObject;
use crate::objects::values::label_selector;
use crate::objects::values::problems::{Problem, Problems};

/// The plural name of the resource.
pub const PLURAL: &str = "sidecarsets";

/// The most containers of a set that are read.
const MOST_CONTAINERS: usize = 32;
/// The most requirements and values of a selector.
const MOST_REQUIREMENTS: usize = 64;
/// The longest name of a container in bytes, without the suffix of a pair.
const LONGEST_NAME: usize = 61;
/// The label by which a selector names namespaces.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The images that the administrator of swaplet allows.
#[derive(Clone, Debug)]
pub struct UpgradeImages {
    /// The images that may be written as new ones.
    pub listed: Vec<ImagePattern>,
    /// The park image, which serves as the empty image.
    pub park: Option<ImageReference>,
    /// Other empty images, for containers with hooks or probes that the park image does not answer.
    pub empty: Vec<ImagePattern>,
}

impl UpgradeImages {
    /// Returns true if this image may be written, spelled as the administrator spells it.
    pub fn lists(&self, image: &str) -> bool {
        self.listed.iter().any(|listed| listed.spells(image))
    }

    /// Returns true if the image of a container may be replaced, also under an alias of a listed
    /// one.
    pub fn admits(&self, container: &UpgradeContainer) -> bool {
        let Some(image) = container.tagged() else {
            return self.lists(&container.image);
        };
        let lists = |image: &str| {
            self.lists(image) || self.lists(image.split('@').next().unwrap_or_default())
        };
        let mut listed = self.listed.iter();
        lists(image)
            || lists(&original(image))
            || listed.any(|listed| is_same_image(image, listed.as_str()))
    }

    /// Returns true if a container with this image is the empty one of its pair. It has the park
    /// image, one of the same repository, which was the park image before, or one of the other
    /// empty images.
    pub fn is_empty(&self, image: &str) -> bool {
        let is_park = |image: &ImageReference| {
            let park = self.park.as_ref();
            park.is_some_and(|park| image.same_repository(park))
        };
        let is_other = |image: &ImageReference| self.empty.iter().any(|other| other.matches(image));
        ImageReference::parse(image).is_ok_and(|image| is_park(&image) || is_other(&image))
    }

    /// Returns the image to write for an empty one that a set names: of the repository of the park
    /// image only that itself, as nobody has admitted the others; else one that the administrator
    /// spells so.
    fn written<'a>(&'a self, empty: &'a str) -> Option<&'a str> {
        let named = ImageReference::parse(empty).ok()?;
        let park = self
            .park
            .as_ref()
            .filter(|park| named.same_repository(park));
        let listed = || self.empty.iter().any(|listed| listed.spells(empty));
        park.map(ImageReference::as_str)
            .or_else(|| listed().then_some(empty))
    }
}

/// A `SidecarSet`, reduced to what hot upgrades need.
#[derive(Clone, Debug)]
pub struct SidecarSet {
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.resourceVersion`
    pub version: Box<str>,
    /// `metadata.generation`
    pub generation: i64,
    /// `spec.selector`; `None` if a selector or the strategy is unusable: the set handles no pod.
    pub pods: Option<Selector>,
    /// `spec.namespace` and `spec.namespaceSelector`, by the names of namespaces.
    pub namespaces: Selector,
    /// The containers of `spec.containers` whose `upgradeType` is `HotUpgrade`.
    pub containers: Vec<HotContainer>,
    /// `spec.updateStrategy`
    pub update: UpdateStrategy,
    /// The fields that cannot be used, each with the fix.
    pub problems: Vec<String>,
    /// `status`, unchanged.
    pub status: Value,
}

/// A sidecar that pods have twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotContainer {
    /// `name`, without the suffix.
    pub name: Box<str>,
    /// `image`: the new one.
    pub image: Box<str>,
    /// `upgradeStrategy.hotUpgradeEmptyImage`
    pub empty: Box<str>,
}

/// `spec.updateStrategy`: the order and limits of upgrades.
#[derive(Clone, Debug)]
pub struct UpdateStrategy {
    /// True if upgrades may begin: the set is not paused, and its type is not `NotUpdate`.
    pub is_on: bool,
    /// `selector`
    pub selector: Selector,
    /// `partition`: this many pods keep their images.
    pub partition: Amount,
    /// `maxUnavailable`: this many pods are upgraded at once.
    pub max_unavailable: Amount,
}

impl UpdateStrategy {
    /// Returns how many of these pods keep their images: with less than 100 % at least one pod is
    /// upgraded (OpenKruise: `pkg/util`, `CalculatePartitionReplicas`).
    pub const fn kept(&self, pods: usize) -> usize {
        let count = self.partition.of(pods, Rounding::Up);
        match self.partition {
            Amount::Percent(percent) if percent < 100 && count >= pods => pods.saturating_sub(1),
            _ => count,
        }
    }
}

/// Returns the description of the resource for a client.
pub fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, "SidecarSet");
    ApiResource::from_gvk_with_plural(&kind, PLURAL)
}

impl SidecarSet {
    /// Reads a set. Returns `None` if it has no name or uid.
    pub fn read(object: BoundedObject, images: &UpgradeImages) -> Option<Self> {
        let metadata = object.metadata;
        let text = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Box::from);
        let spec = &object.data["spec"];
        let mut problems = Problems::default();
        let pods = problems.note("selector", pods(&spec["selector"]));
        let namespaces = problems.note("namespaceSelector", namespaces(spec));
        let update = problems.note("updateStrategy", update(&spec["updateStrategy"]));
        let containers = problems.note("containers", list(&spec["containers"]));
        let containers = containers.unwrap_or_default().iter().enumerate();
        let containers = containers.filter_map(|(nth, written)| {
            problems.note(&format!("containers[{nth}]"), container(written, images))
        });
        let containers = containers.collect();
        // A set in which one of these is unusable handles no pod.
        let (pods, namespaces, update) = match (pods, namespaces, update) {
            (Some(pods), Some(namespaces), Some(update)) => (Some(pods), namespaces, update),
            _ => (None, Selector::default(), UpdateStrategy::default()),
        };
        Some(Self {
            name: text(metadata.name)?,
            uid: text(metadata.uid)?,
            version: text(metadata.resource_version).unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            pods,
            namespaces,
            containers,
            update,
            problems: problems.0,
            status: object.data["status"].clone(),
        })
    }

    /// Returns true if both sets handle a sidecar of the same name.
    pub fn shares_sidecars(&self, other: &Self) -> bool {
        let names = |one: &HotContainer| other.containers.iter().any(|two| one.name == two.name);
        self.containers.iter().any(names)
    }

    /// Returns true if the set selects pods of this namespace.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        let labels = [(NAMESPACE_NAME.to_owned(), namespace.to_owned())];
        self.namespaces.matches(&labels.into())
    }
}

impl Default for UpdateStrategy {
    fn default() -> Self {
        Self {
            is_on: true,
            selector: Selector::default(),
            partition: Amount::Count(0),
            max_unavailable: Amount::Count(1),
        }
    }
}

/// Reads `spec.selector`. OpenKruise's webhook refuses a set without one: it would select all pods.
fn pods(written: &Value) -> Result<Selector, Problem> {
    let selector = selector(written)?;
    if selector.selects_all() {
        return Err("it selects every pod: write labels of the pods that have the pair".to_owned());
    }
    Ok(selector)
}

fn selector(written: &Value) -> Result<Selector, Problem> {
    label_selector::read(written, MOST_REQUIREMENTS)
}

/// Reads the selectors of namespaces, of which only the names are known here.
fn namespaces(spec: &Value) -> Result<Selector, Problem> {
    let mut selector = selector(&spec["namespaceSelector"])?;
    let keys = spec["namespaceSelector"]["matchLabels"].as_object();
    let expressions = spec["namespaceSelector"]["matchExpressions"].as_array();
    let mut keys = keys.into_iter().flatten().map(|(key, _)| key.as_str());
    let mut others = expressions.into_iter().flatten();
    if keys.any(|key| key != NAMESPACE_NAME) || others.any(|one| one["key"] != NAMESPACE_NAME) {
        return Err(format!(
            "swaplet reads only the names of namespaces: select them by the label {NAMESPACE_NAME}"
        ));
    }
    match &spec["namespace"] {
        Value::Null => {}
        Value::String(name) if name.is_empty() => {}
        Value::String(name) => {
            let named = kube_core::Expression::Equal(NAMESPACE_NAME.to_owned(), name.clone());
            selector.extend(named);
        }
        _ => return Err("spec.namespace is not a string".to_owned()),
    }
    Ok(selector)
}

/// `spec.updateStrategy`, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdateWire {
    r#type: Option<Box<str>>,
    paused: Option<bool>,
    selector: Value,
    partition: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
}

fn update(written: &Value) -> Result<UpdateStrategy, Problem> {
    let update = Option::<UpdateWire>::deserialize(written);
    let update = update
        .map_err(|error| error.to_string())?
        .unwrap_or_default();
    let is_updated = match update.r#type.as_deref() {
        None | Some("" | "RollingUpdate") => true,
        Some("NotUpdate") => false,
        Some(_) => return Err("type is not known: write RollingUpdate or NotUpdate".to_owned()),
    };
    let default = UpdateStrategy::default();
    let max_unavailable = amount("maxUnavailable", update.max_unavailable)?;
    let max_unavailable = max_unavailable.unwrap_or(default.max_unavailable);
    if max_unavailable.is_none() {
        return Err("with this maxUnavailable nothing is upgraded: write at least 1".to_owned());
    }
    Ok(UpdateStrategy {
        is_on: is_updated && update.paused != Some(true),
        selector: selector(&update.selector)?,
        partition: amount("partition", update.partition)?.unwrap_or(default.partition),
        max_unavailable,
    })
}

fn amount(field: &str, written: Option<IntOrString>) -> Result<Option<Amount>, Problem> {
    let read = |written: IntOrString| match (&written, Amount::read(&written)) {
        (IntOrString::Int(_), Some(amount)) => Ok(amount),
        (_, Some(amount @ Amount::Percent(0..=100))) => Ok(amount),
        _ => Err(format!(
            "{field} is neither a number of pods nor a percentage, such as 25%"
        )),
    };
    written.map(read).transpose()
}

fn list(written: &Value) -> Result<&[Value], Problem> {
    let list = written
        .as_array()
        .filter(|list| list.len() <= MOST_CONTAINERS);
    let list = list.map(Vec::as_slice);
    list.ok_or_else(|| format!("write a list of at most {MOST_CONTAINERS} containers"))
}

fn container(written: &Value, images: &UpgradeImages) -> Result<HotContainer, Problem> {
    let strategy = &written["upgradeStrategy"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&written["name"]);
    if strategy["upgradeType"] != "HotUpgrade" {
        return Err(format!(
            "{name} is not upgraded: swaplet upgrades containers whose upgradeStrategy.upgradeType is HotUpgrade"
        ));
    }
    let byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(byte) {
        return Err(format!(
            "name is not a container name of 1 to {LONGEST_NAME} bytes"
        ));
    }
    let (image, empty) = (
        text(&written["image"]),
        text(&strategy["hotUpgradeEmptyImage"]),
    );
    ImageReference::parse(&image).map_err(|error| format!("image: {error}"))?;
    if !images.lists(&image) {
        return Err(format!(
            "the image {image} is not on the list of --hot-upgrade-images, which the administrator of swaplet sets: name one that is, spelled as there"
        ));
    }
    let Some(empty) = images.written(&empty).filter(|_| !images.is_empty(&image)) else {
        let park = images.park.as_ref().map_or("", ImageReference::as_str);
        return Err(format!(
            "upgradeStrategy.hotUpgradeEmptyImage has to be the park image {park}, or one of --hot-upgrade-empty-images, and image none of them"
        ));
    };
    Ok(HotContainer {
        name: name.into(),
        image: image.into(),
        empty: empty.into(),
    })
}
