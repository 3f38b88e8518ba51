//! The labels and annotations that a container's environment takes by `valueFrom.fieldRef`.

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::item::items;
use crate::objects::pod::view::{ContainerView, SpecView};
use crate::restart::hot_upgrade::pod::{VERSION, VERSION_ALT, WORKING};
use crate::restart::on_config::annotation::{Problem, RestartOn, Source};
use crate::restart::on_config::content::Content;

/// The labels or the annotations of a pod.
type Fields = BTreeMap<Box<str>, Box<str>>;

impl SpecView {
    /// Returns the digests of the metadata by container, for those that are restarted for it.
    pub(super) fn metadata(
        &self,
        wish: &RestartOn,
        labels: &Fields,
        annotations: &Fields,
    ) -> Result<BTreeMap<Box<str>, Content>, Problem> {
        let asks = |sources: &BTreeSet<Source>| sources.contains(&Source::PodMetadata);
        let asking = wish.iter().filter(|(_, sources)| asks(sources));
        asking
            .map(|(name, _)| {
                let fields: BTreeMap<_, _> = items(&self.containers)
                    .filter(|container| container.name.value.as_ref() == Some(name))
                    .flat_map(ContainerView::field_paths)
                    .filter_map(|path| Some((path, value_at(path, labels, annotations)?)))
                    .collect();
                if fields.is_empty() {
                    return Err(Problem::NoMetadata(name.clone()));
                }
                Ok((name.clone(), Content::of_metadata(&fields)))
            })
            .collect()
    }
}

/// Returns the value of a variable with this `fieldPath` (`pkg/fieldpath`,
/// `ExtractFieldPathAsString`): empty if the key is missing. `None` for another field, and for keys
/// that swaplet writes: a container would be restarted because it was restarted, or hot-upgraded.
fn value_at<'a>(path: &str, labels: &'a Fields, annotations: &'a Fields) -> Option<&'a str> {
    let key = |field: &str| {
        let key = path.strip_prefix(field)?.strip_prefix("['")?;
        let key = key.strip_suffix("']").filter(|key| !key.is_empty())?;
        let ours = ["swaplet.io/", VERSION, VERSION_ALT, WORKING];
        let is_ours = ours.iter().any(|start| key.starts_with(start));
        (!is_ours).then_some(key)
    };
    let (fields, key) = key("metadata.labels")
        .map(|key| (labels, key))
        .or_else(|| Some((annotations, key("metadata.annotations")?)))?;
    Some(fields.get(key).map(|text| &**text).unwrap_or_default())
}

impl ContainerView {
    fn field_paths(&self) -> impl Iterator<Item = &str> {
        let values = items(&self.env).filter_map(|env| env.value_from.value.as_deref());
        values.filter_map(|from| from.field_ref.value.0.field_path.value.as_deref())
    }
}
