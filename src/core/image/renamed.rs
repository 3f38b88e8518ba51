//! Images to which a webhook has given another name: that of a mirror of their registry.

use super::reference::{ImageReference, differ};

/// Returns true if `image` may be what a webhook has made of `written`: the last part of the
/// repository is the same, and tag and digest are not different ones.
pub fn may_be_renamed(image: &str, written: &str) -> bool {
    let Some((image, written)) = ImageReference::both(image, written) else {
        return false;
    };
    let last = |one: &ImageReference| one.repository().rsplit('/').next().map(str::to_owned);
    last(&image) == last(&written)
        && !differ(image.tag(), written.tag())
        && !differ(image.digest(), written.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_keeps_the_last_part_of_the_name_and_what_is_behind_it() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let written = "r.example/swaplet/parking:v1";
        for image in [
            written.to_owned(),
            "mirror.example/r.example/swaplet/parking:v1".into(),
            "mirror.example/parking:v1".into(),
            format!("mirror.example/parking:v1@{digest}"),
            format!("mirror.example/parking@{digest}"),
        ] {
            assert!(may_be_renamed(&image, written), "{image}");
        }
        for image in [
            "r.example/swaplet/parking:v2",
            "r.example/app:v1",
            "mirror.example/parking/app:v1",
            "no image",
        ] {
            assert!(!may_be_renamed(image, written), "{image}");
        }
        let pinned = format!("r.example/app:v1@{digest}");
        let other = format!("mirror.example/app:v1@sha256:{}", "b".repeat(64));
        assert!(!may_be_renamed(&other, &pinned));
    }
}
