//! The images of a pod in the response to a write of them. The response is the whole pod, which the
//! watch shows as well; so nothing else of it is read.

use serde::Deserialize;

use crate::objects::values::lenient::{Lenient, Object, Objects, Text};

/// The response to a write of images. Any JSON object decodes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StoredImages {
    spec: Lenient<Object<SpecWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SpecWire {
    containers: Objects<ContainerWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerWire {
    image: Text,
}

impl StoredImages {
    /// Returns the image of the container at this position in `spec.containers`; `None` if the
    /// response does not have it.
    #[must_use]
    pub fn of(&self, index: usize) -> Option<&str> {
        let container = self.spec.value.0.containers.value.get(index)?;
        container.value.0.image.value.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(json: &str) -> Vec<Option<String>> {
        let stored: StoredImages = serde_json::from_str(json).unwrap();
        (0..2)
            .map(|index| stored.of(index).map(str::to_owned))
            .collect()
    }

    #[test]
    fn images_are_read_by_their_place_and_nothing_makes_that_fail() {
        let image = |word: &str| Some(word.to_owned());
        assert_eq!(
            images(
                r#"{"metadata":{"name":7},"spec":{"containers":[{"image":"a"},{"image":"b"}]},"status":[]}"#
            ),
            [image("a"), image("b")]
        );
        assert_eq!(
            images(r#"{"spec":{"containers":[{"image":1},{"image":"b"}]}}"#),
            [None, image("b")]
        );
        for nothing in ["{}", r#"{"spec":[]}"#, r#"{"spec":{"containers":"a"}}"#] {
            assert_eq!(images(nothing), [None, None]);
        }
    }
}
