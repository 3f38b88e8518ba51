//! The flags of `swaplet run` for image caches, which are billed.

use clap::Args;
use swaplet_core::warm::image_cache::CacheOptions;

use crate::image::ImageReference;

/// The retention that the provider's examples use: a job that is still needed is repeated by then.
const DAYS: u32 = 7;
/// The provider's own default, in GiB.
const SIZE: u32 = 20;

#[derive(Debug, Args)]
pub(super) struct ImageCacheArgs {
    /// Create ImageCaches for Alibaba ECI: one for each job whose nodes include its virtual nodes,
    /// with the images of the job and --exit-image; its machines start from it. It is a snapshot of
    /// a disk, which is billed, also when the job is over or gone, until it expires or you delete
    /// it. Needs the CRD imagecaches.eci.alibabacloud.com, and the role swaplet-warm-image-caches
    /// of deploy/warm.yaml
    #[arg(long, env = "SWAPLET_WARM_IMAGE_CACHES", requires = "warm")]
    warm_image_caches: bool,
    /// Days after which the provider deletes an ImageCache that --warm-image-caches has created
    #[arg(hide_short_help = true, long, value_name = "DAYS", env = "SWAPLET_WARM_IMAGE_CACHE_DAYS", default_value_t = DAYS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    warm_image_cache_days: u32,
    /// The size of the disk of an ImageCache; it has to be twice that of its images, or more
    #[arg(hide_short_help = true, long, value_name = "GIB", env = "SWAPLET_WARM_IMAGE_CACHE_SIZE", default_value_t = SIZE)]
    #[arg(value_parser = clap::value_parser!(u32).range(20..=32_768))]
    warm_image_cache_size: u32,
}

impl ImageCacheArgs {
    /// Returns the options; `None` if no caches are made.
    pub(super) fn options(&self, exit_image: Option<&ImageReference>) -> Option<CacheOptions> {
        self.warm_image_caches.then(|| CacheOptions {
            exit_image: exit_image.map(|image| image.as_str().into()),
            size: self.warm_image_cache_size,
            retention_days: self.warm_image_cache_days,
        })
    }
}
