//! What the kubelet reports about a pull in its Event `Pulled`: how long it took, and the size of
//! the image. Events may be lost, so nothing depends on them; only [`evidence`](super::evidence)
//! uses one as a proof where a status alone is unclear.

use std::sync::Arc;
use std::time::Duration;

use crate::objects::values::go_duration::duration;

/// A pull, as the kubelet reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The image, as the spec of the pod has it.
    pub image: Arc<str>,
    /// The duration of the pull, without waiting for other pulls of the node; `None` if the image
    /// was there already.
    pub took: Option<Duration>,
    /// The size of the image, in bytes; kubelets before 1.30 do not report it.
    pub bytes: Option<u64>,
}

impl Pulled {
    /// Reads the message of an Event `Pulled` (`kubelet/images/image_manager.go`), if it is one.
    #[must_use]
    pub fn read(message: &str) -> Option<Self> {
        if let Some(rest) = message.strip_prefix("Successfully pulled image \"") {
            let (image, rest) = rest.split_once("\" in ")?;
            let took = duration(rest.split_whitespace().next()?.trim_end_matches('.'))?;
            let bytes = rest
                .split_once("Image size: ")
                .and_then(|(_, size)| size.split_whitespace().next()?.parse().ok());
            return Some(Self {
                image: image.into(),
                took: Some(took),
                bytes,
            });
        }
        let (image, rest) = message
            .strip_prefix("Container image \"")?
            .split_once('"')?;
        rest.starts_with(" already present on machine")
            .then(|| Self {
                image: image.into(),
                took: None,
                bytes: None,
            })
    }
}
