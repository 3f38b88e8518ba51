//! The write of image caches: they are created, and never changed or deleted.

use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::image_cache::{IMAGE_CACHES, NewImageCache, resource};

use crate::frame::writer::{Writer, creation, requests_for};

impl Writer {
    /// Creates an image cache. An existing one of this name is a conflict, so two requests for the
    /// same cache create one.
    pub async fn create_image_cache(&self, cache: &NewImageCache) -> Result<(), WriteError> {
        let caches = requests_for::<BoundedObject>(&resource(), None);
        let built = creation(&caches, &cache.object());
        self.sent(IMAGE_CACHES, built).await.map(drop)
    }
}
