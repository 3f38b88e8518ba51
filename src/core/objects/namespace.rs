//! A namespace, reduced to its name and labels.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;

use super::item::{FromView, Item, Unread, View};
use super::values::fields::strings;

/// A namespace of a list or watch.
pub type NamespaceWire = Item<Labelled>;

/// The name of a namespace, and its labels.
pub type Labelled = (Box<str>, BTreeMap<String, String>);

impl FromView for Labelled {
    type Kind = Namespace;
    type View = View<Unread, Unread>;

    /// Returns `None` if it has no name.
    fn of(view: Self::View) -> Option<Self> {
        let meta = view.metadata;
        let labels = strings(meta.labels.all()?);
        Some((meta.name.filled()?, labels))
    }
}
