//! The images that a node reports: names only, and not all of them. Separate from
//! [`node`](crate::objects::node), because the list is the longest part of a node, and few callers
//! need it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource as _;
use serde::{Deserialize, Deserializer};

use crate::objects::node::{Node, NodeWire};
use crate::objects::values::bounded_value::BoundedValue;
use crate::objects::values::lenient::{Lenient, Object, Objects, Text};

/// A node with its list of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImages {
    /// The node without the list.
    pub node: Node,
    /// `status.images[].names`: an image has several names. Nodes leave images out if they have too
    /// many (50 by default).
    pub images: Vec<Vec<Box<str>>>,
}

/// A node of a list. As for pods, decoding fails only for JSON that is no Kubernetes object at all.
#[derive(Clone, Debug)]
pub struct NodeImagesWire {
    metadata: ObjectMeta,
    node: NodeWire,
    images: Objects<ImageWire>,
}

of_kind!(NodeImagesWire, k8s_openapi::api::core::v1::Node);

#[derive(Default, Deserialize)]
#[serde(default)]
struct TopWire {
    status: Lenient<Object<StatusWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StatusWire {
    images: Objects<ImageWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ImageWire {
    names: Lenient<Vec<Text>, 64>,
}

impl<'de> Deserialize<'de> for NodeImagesWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = BoundedValue::deserialize(deserializer)?.0;
        let node = NodeWire::deserialize(&value).map_err(serde::de::Error::custom)?;
        let top = TopWire::deserialize(&value).map_err(serde::de::Error::custom)?;
        Ok(Self {
            metadata: node.meta().clone(),
            node,
            images: top.status.value.0.images,
        })
    }
}

impl NodeImagesWire {
    /// Reads the node. Returns `None` if it has no name or uid.
    #[must_use]
    pub fn read(self) -> Option<NodeImages> {
        let names = |image: Lenient<Object<ImageWire>>| {
            image
                .value
                .0
                .names
                .value
                .into_iter()
                .filter_map(|name| name.value)
                .collect()
        };
        Some(NodeImages {
            node: self.node.read()?,
            images: self.images.value.into_iter().map(names).collect(),
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
    fn names_are_read_and_what_has_a_wrong_type_is_absent() {
        let names = json!([{"names": ["r.example/app@sha256:1", "r.example/app:1"], "sizeBytes": 1}, {"names": [7, "x"]}, {"names": null}]);
        assert_eq!(
            images(&names),
            [
                vec!["r.example/app@sha256:1".into(), "r.example/app:1".into()],
                vec!["x".into()],
                vec![]
            ]
        );
        for strange in [json!(null), json!("x"), json!(7), json!({})] {
            assert!(images(&strange).is_empty(), "{strange}");
        }
    }
}
