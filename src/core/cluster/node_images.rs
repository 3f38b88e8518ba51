//! The images that a node reports: names only, and not all of them. Separate from
//! [`node`](crate::objects::node), because the list is the longest part of a node, and few callers
//! need it.

use serde::Deserialize;

use crate::objects::item::{FromView, Item, View};
use crate::objects::node::{Node, NodeSpecView, NodeStatusView};
use crate::objects::values::fields::{List, Text};

/// A node with its list of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImages {
    /// The node without the list.
    pub node: Node,
    /// `status.images[].names`: an image has several names. Nodes leave images out if they have too
    /// many (50 by default).
    pub images: Vec<Vec<Box<str>>>,
}

/// A node of a list.
pub type NodeImagesWire = Item<NodeImages>;

/// One of `status.images`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ImageView {
    names: List<Text, 64>,
}

impl FromView for NodeImages {
    type Kind = k8s_openapi::api::core::v1::Node;
    type View = View<NodeSpecView, NodeStatusView<List<ImageView>>>;

    /// Returns `None` if it has no name.
    fn of(mut view: Self::View) -> Option<Self> {
        let images = std::mem::take(&mut view.status.images.items).into_iter();
        let names = |image: ImageView| {
            let names = image.names.items.into_iter();
            names.filter_map(|name| name.value).collect()
        };
        Some(Self {
            images: images.map(names).collect(),
            node: Node::read(view)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn images(images: &Value) -> Vec<Vec<Box<str>>> {
        let node = json!({"metadata": {"name": "n", "uid": "u"}, "status": {"images": images}});
        let read = serde_json::from_value::<NodeImagesWire>(node)
            .unwrap()
            .read()
            .unwrap();
        assert_eq!(&*read.node.name, "n");
        read.images
    }

    #[test]
    fn names_are_read_and_null_is_absent() {
        let names = json!([{"names": ["r.example/app@sha256:1", "r.example/app:1"], "sizeBytes": 1}, {"names": [null, "x"]}, {"names": null}]);
        assert_eq!(
            images(&names),
            [
                vec!["r.example/app@sha256:1".into(), "r.example/app:1".into()],
                vec!["x".into()],
                vec![]
            ]
        );
        assert!(images(&json!(null)).is_empty());
    }
}
