//! Other spellings of the same image bytes. A node that gets one in place of the old spelling
//! restarts exactly that container, with the image that it already has (`docs/measured.md`, rows 17
//! to 19 and "Images by other names").
//!
//! | written | `status.imageID` | alias |
//! |---|---|---|
//! | `repo:tag` | `repo@digest` | `repo:tag-restart-N@digest` |
//! | `repo` | `repo@digest` | `repo:latest-restart-N@digest` |
//! | `repo:tag@digest`, `repo:tag-restart-M@digest` | | `repo:tag-restart-N@digest` |
//! | `repo@digest`, `repo:restart-M@digest` | | `repo:restart-N@digest` |
//! | `name:tag` | `sha256:...` (imported) or `other@digest`, and `status.image` is `name:tag` | `docker.io/library/name:tag`, and back |
//! | other names | `sha256:...` (imported) | that digest itself |
//! | `name:tag` | empty | `docker.io/library/name:tag`, and back |
//! | `host/name:tag` | `other@digest`, or empty | none |
//! | `sha256:...` | | none |
//!
//! A kubelet keeps the back-off of a container by the name of its image. One that comes back to a
//! name too soon is stopped and not started, for good under `Never`. No runtime reads a tag beside a
//! digest, so there each alias is a name that the pod has never had: N grows with every change of
//! its spec. People's tags end in `-r1` (Bitnami), but not in `-restart-1`.
//!
//! A status can be written by others than nodes. So it may choose a digest of the repository that
//! the spec names, or an image that lies on the node; it never chooses another repository. If an
//! image was imported or tagged by hand, the node may know the digest under another name only: then
//! `repo:tag-restart-N@digest` cannot be pulled, and is not written.

use std::borrow::Cow;

use super::parsed::parts;
use super::reference::{ImageReference, Target};

/// The prefixes that complete the short names of Docker Hub.
const DOCKER_HUB: &str = "docker.io/";
const LIBRARY: &str = "docker.io/library/";
/// The prefixes that older container runtimes put before an imageID (Kubernetes:
/// `pkg/kubelet/dockershim`, removed in 1.24; some providers kept it).
const PREFIXES: [&str; 2] = ["docker-pullable://", "docker://"];
/// What stands before the number in a fresh tag; `deploy/leash.yaml` knows it too.
const RESTART: &str = "restart-";
/// The most digits of a number in a fresh tag.
const DIGITS: usize = 10;
/// The most characters of a tag (OCI distribution specification).
const LONGEST_TAG: usize = 128;

/// A spelling to write in place of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The image to write.
    pub image: String,
    /// The difference from the image before.
    pub form: Form,
    /// True if the node itself has reported that it has the image under this name, so that starting
    /// it needs no registry. Otherwise it is the same name in other letters, which can be pulled
    /// where the image can.
    pub is_on_node: bool,
}

/// How an alias differs from the image before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// By a tag beside the digest, which no container of the pod has had.
    Fresh,
    /// By the length of the same name of Docker Hub; there are two.
    Respelled,
    /// It is the bare digest of an imported image.
    Bare,
}

/// The image of a container, as a node reports it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reported<'a> {
    /// `status.image`
    pub image: &'a str,
    /// `status.imageID`
    pub image_id: &'a str,
}

impl Reported<'_> {
    /// Returns true if a digest may be taken from the report for the image that the spec has. While
    /// an old container stops, a node reports its image under a spec that has another one already.
    /// A digest in the spec needs no report.
    pub fn is_about(&self, written: &str) -> bool {
        self.image_id.is_empty()
            || written.contains('@')
            || written == self.image_id
            || is_same_name(written, self.image)
    }
}

impl Alias {
    /// Returns an alias of the image that the spec names; `None` if none is known. A digest is only
    /// taken from the spec and the node's own report. `count` grows with each change of the pod.
    pub fn of(written: &str, reported: Reported<'_>, count: u64) -> Option<Self> {
        let id = PREFIXES
            .iter()
            .find_map(|prefix| reported.image_id.strip_prefix(prefix))
            .unwrap_or(reported.image_id);
        let known = id.split_once('@').filter(|_| same_repository(written, id));
        let found = if is_bare_digest(written) {
            None
        } else if let Some((_, digest)) = written.split_once('@') {
            let is_on_node = known.is_some_and(|(_, known)| known == digest);
            Some(fresh(written, digest, count, is_on_node))
        } else if let Some((_, digest)) = known {
            Some(fresh(written, digest, count, true))
        } else if id.contains('@') {
            known_as(written, reported.image)
        } else if is_bare_digest(id) {
            Some(known_as(written, reported.image).unwrap_or_else(|| Self {
                image: id.to_owned(),
                form: Form::Bare,
                is_on_node: true,
            }))
        } else {
            respelled(written, false)
        };
        found.filter(|alias| alias.image != written && is_writable(&alias.image))
    }
}

/// Returns true if the API server accepts the image: also the bare digest, which is no reference.
pub(crate) fn is_writable(image: &str) -> bool {
    is_bare_digest(image) || ImageReference::parse(image).is_ok()
}

/// Returns true for the digest of an imported image, which some nodes have under no other name.
pub fn is_bare_digest(image: &str) -> bool {
    let hex = image.strip_prefix("sha256:");
    hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns true for two images of one repository, which may be the same bytes.
pub(crate) fn same_repository(one: &str, other: &str) -> bool {
    ImageReference::both(one, other).is_some_and(|(one, other)| one.same_repository(&other))
}

/// Returns true for two spellings of one name.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    ImageReference::both(one, other)
        .is_some_and(|(one, other)| one.normalized() == other.normalized())
}

/// Returns the image with this digest and a tag that no image of the pod has had.
fn fresh(written: &str, digest: &str, count: u64, is_on_node: bool) -> Alias {
    let (repository, tag, pinned) = parts(written);
    let (tag, number) = match (tag, pinned) {
        (Some(tag), Some(_)) => numbered(tag).unwrap_or((tag, 0)),
        (Some(tag), None) => (tag, 0),
        (None, Some(_)) => ("", 0),
        // The tag that none means.
        (None, None) => ("latest", 0),
    };
    let hyphen = if tag.is_empty() { "" } else { "-" };
    let end = format!("{hyphen}{RESTART}{}@{digest}", count.max(number) + 1);
    let room = LONGEST_TAG.saturating_sub(end.len() - digest.len() - 1);
    let tag = tag.get(..room).unwrap_or(tag);
    Alias {
        image: format!("{repository}:{tag}{end}"),
        form: Form::Fresh,
        is_on_node,
    }
}

/// Splits a fresh tag into the tag that it was made of, which may be empty, and its number; `None`
/// for another tag.
fn numbered(tag: &str) -> Option<(&str, u64)> {
    let (tag, number) = tag.rsplit_once(RESTART)?;
    let is_number = number.len() <= DIGITS
        && !number.starts_with('0')
        && number.bytes().all(|byte| byte.is_ascii_digit());
    let tag = if tag.is_empty() {
        tag
    } else {
        tag.strip_suffix('-')?
    };
    Some((tag, number.parse().ok().filter(|_| is_number)?))
}

/// Returns the image that a fresh name was made of, with its digest; another image as it is.
pub fn original(image: &str) -> Cow<'_, str> {
    let (repository, tag, digest) = parts(image);
    match (tag.and_then(numbered), digest) {
        (Some(("", _)), Some(digest)) => format!("{repository}@{digest}").into(),
        (Some((tag, _)), Some(digest)) => format!("{repository}:{tag}@{digest}").into(),
        _ => image.into(),
    }
}

/// Returns true if `alias` is a fresh name made of `written`, with the digest that the node reports
/// for it.
pub(crate) fn is_fresh_name_of(alias: &str, written: &str, reported: Reported<'_>) -> bool {
    let number = parts(alias).1.and_then(numbered);
    number
        .and_then(|(_, number)| Alias::of(written, reported, number.checked_sub(1)?))
        .is_some_and(|again| again.image == alias)
}

/// Returns the other spelling of a short name if the node has the bytes by another name, and
/// reports that it has this one as well.
fn known_as(written: &str, reported: &str) -> Option<Alias> {
    respelled(written, true).filter(|_| is_same_name(written, reported))
}

/// Returns the same name of Docker Hub in its other length; `None` for other registries.
fn respelled(written: &str, is_on_node: bool) -> Option<Alias> {
    let is_docker_hub = ImageReference::parse(written).ok()?.registry() == "docker.io";
    let image = if let Some(short) = written
        .strip_prefix(LIBRARY)
        .or_else(|| written.strip_prefix(DOCKER_HUB))
    {
        short.to_owned()
    } else {
        format!(
            "{}{written}",
            if written.contains('/') {
                DOCKER_HUB
            } else {
                LIBRARY
            }
        )
    };
    (is_docker_hub && is_same_name(written, &image)).then_some(Alias {
        image,
        form: Form::Respelled,
        is_on_node,
    })
}

/// Returns true if two images are one to every runtime: the digest decides, and a tag before it has
/// no effect.
pub(crate) fn is_same_digest(one: &str, other: &str) -> bool {
    ImageReference::both(one, other)
        .is_some_and(|(one, other)| one.same_target(&other) == Target::Same)
}

/// Returns true for the same image: the tag has not moved, as far as the strings show. A fresh name
/// is the image that it was made of. A webhook may have changed the spelling that was written.
pub fn is_same_image(image: &str, written: &str) -> bool {
    image == written
        || ImageReference::both(&original(image), &original(written))
            .is_some_and(|(image, written)| image.is_alias_of(&written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn alias(written: &str, image: &str, image_id: &str) -> Option<(String, bool)> {
        Alias::of(written, Reported { image, image_id }, 1)
            .map(|alias| (alias.image, alias.is_on_node))
    }

    #[test]
    fn each_restart_has_a_name_of_its_own_that_keeps_the_tag_and_pins_the_bytes() {
        let id = format!("r.example:5000/x@{A}");
        let reported = Reported {
            image: "r.example:5000/x:t",
            image_id: &id,
        };
        let mut written = "r.example:5000/x:t".to_owned();
        for count in [1, 1, 7, 8, 3] {
            let next = Alias::of(&written, reported, count).unwrap();
            assert_eq!((next.form, next.is_on_node), (Form::Fresh, true));
            assert_eq!(original(&next.image), format!("r.example:5000/x:t@{A}"));
            written = next.image;
        }
        assert_eq!(written, format!("r.example:5000/x:t-restart-10@{A}"));
        for (image, fresh) in [
            (format!("x@{A}"), format!("x:restart-2@{A}")),
            (format!("x:restart-2@{A}"), format!("x:restart-3@{A}")),
            (format!("x:t@{A}"), format!("x:t-restart-2@{A}")),
        ] {
            assert_eq!(alias(&image, "", &id).map(|(image, _)| image), Some(fresh));
        }
    }

    #[test]
    fn a_tag_of_the_users_own_is_not_taken_for_one_of_a_restart() {
        let id = format!("docker.io/library/x@{A}");
        for tag in [
            "7.0-r3",
            "v1-restart",
            "restart-",
            "a-restart-01",
            "restart-12345678901",
            "prerestart-1",
        ] {
            assert_eq!(
                alias(&format!("x:{tag}@{A}"), "", &id),
                Some((format!("x:{tag}-restart-2@{A}"), true))
            );
            assert_eq!(original(&format!("x:{tag}@{A}")), format!("x:{tag}@{A}"));
        }
        assert_eq!(
            alias("x:t-restart-4", "", &id),
            Some((format!("x:t-restart-4-restart-2@{A}"), true))
        );
        assert_eq!(original("x:t-restart-4"), "x:t-restart-4");
    }

    #[test]
    fn a_fresh_tag_is_never_longer_than_a_tag_may_be() {
        let (long, id) = ("t".repeat(128), format!("docker.io/library/x@{A}"));
        let (first, _) = alias(&format!("x:{long}"), "", &id).unwrap();
        let tag = parts(&first).1.unwrap();
        assert_eq!((tag.len(), tag.ends_with("t-restart-2")), (128, true));
        let reported = Reported {
            image: "",
            image_id: &id,
        };
        assert!(is_fresh_name_of(&first, &format!("x:{long}"), reported));
        assert_eq!(alias(&first, "", &id).unwrap().0.len(), first.len());
    }

    #[test]
    fn a_restarted_image_is_the_one_that_it_was_made_of() {
        let (fresh, plain) = (format!("x:t-restart-5@{A}"), format!("x:restart-5@{A}"));
        for same in [
            "x:t",
            "docker.io/library/x:t",
            &format!("x:t@{A}"),
            &format!("x@{A}"),
            &plain,
        ] {
            assert!(
                is_same_image(&fresh, same) && is_same_image(same, &fresh),
                "{same}"
            );
        }
        for other in ["x:u", "x", "y:t", &format!("x:t@{B}"), "x:t-restart-5"] {
            assert!(
                !is_same_image(&fresh, other) && !is_same_image(other, &fresh),
                "{other}"
            );
        }
        assert!(is_same_image(&plain, "x:any"));
    }

    #[test]
    fn g2_a_report_counts_while_it_is_about_the_image_that_the_spec_has() {
        let id = format!("docker.io/library/x@{A}");
        let about = |written: &str, image: &str| {
            let image_id = &*id;
            Reported { image, image_id }.is_about(written)
        };
        assert!(about("x:1", "docker.io/library/x:1") && about("x", "x:latest"));
        assert!(about(&format!("x:2@{B}"), "x:1") && about(&id, "x:1"));
        assert!(!about("x:2", "x:1") && !about("x:1", "") && !about("x:1", "y:1"));
        assert!(Reported::default().is_about("x:1"));
        let (image, image_id) = ("docker.io/library/x:1", A);
        assert!(Reported { image, image_id }.is_about(A));
    }

    #[test]
    fn the_name_stays_as_it_was_written() {
        assert_eq!(
            alias("busybox", "", &format!("docker.io/library/busybox@{A}")),
            Some((format!("busybox:latest-restart-2@{A}"), true))
        );
        assert_eq!(
            alias("busybox:1", "", &format!("docker-pullable://busybox@{A}")),
            Some((format!("busybox:1-restart-2@{A}"), true))
        );
    }

    #[test]
    fn a_digest_that_the_node_does_not_report_for_this_repository_is_not_known_to_be_there() {
        for id in [&*format!("r.example/x@{B}"), ""] {
            assert_eq!(
                alias(&format!("r.example/x:t@{A}"), "", id),
                Some((format!("r.example/x:t-restart-2@{A}"), false))
            );
        }
    }

    #[test]
    fn an_imported_image_never_gets_a_digest_behind_its_name() {
        let named = "docker.io/library/localwork:1";
        assert_eq!(
            alias("localwork:1", named, A),
            Some((named.to_owned(), true))
        );
        assert_eq!(
            alias(named, named, A),
            Some(("localwork:1".to_owned(), true))
        );
        assert_eq!(
            alias("me/work:1", "docker.io/me/work:1", A),
            Some(("docker.io/me/work:1".to_owned(), true))
        );
        assert_eq!(
            alias("localwork:1", "docker.io/library/localwork:2", A),
            Some((A.to_owned(), true))
        );
        assert_eq!(alias("r.example/work:1", "", A), Some((A.to_owned(), true)));
    }

    /// What `kind load` leaves (a), and a second tag (b).
    #[test]
    fn d1a_d1b_a_digest_of_another_repository_is_not_put_behind_the_name() {
        let imported = format!("docker.io/library/import-2026-11-22@{A}");
        let named = "docker.io/library/my-app2:dev";
        assert_eq!(
            alias("my-app2:dev", named, &imported),
            Some((named.to_owned(), true))
        );
        assert_eq!(
            alias(named, named, &imported),
            Some(("my-app2:dev".to_owned(), true))
        );
        for (written, image) in [
            ("my-app2:dev", ""),
            ("my-app2:dev", "docker.io/library/my-app2:other"),
            ("r.example/x:t", "r.example/x:t"),
            ("r.example/x:t", ""),
            ("local.test/app:1", "127.0.0.1:30573/work:1"),
        ] {
            assert_eq!(alias(written, image, &imported), None, "{written} {image}");
        }
    }

    #[test]
    fn d1_the_names_of_a_bare_digest_are_those_of_the_status_alone_and_none_is_written() {
        assert_eq!(alias(A, "docker.io/library/localwork:1", A), None);
        assert_eq!(
            alias(A, "evil.example/x:1", &format!("evil.example/x@{B}")),
            None
        );
    }

    proptest! {
        /// Whatever the status says, it does not choose a repository.
        #[test]
        fn d1_no_status_has_another_repository_written(
            written in "([a-z]{1,4}\\.example/)?[a-z]{1,4}(:[a-z]{1,3})?",
            image in "([a-z]{1,4}\\.example/)?[a-z]{1,4}(:[a-z]{1,3})?",
            name in "([a-z]{1,4}\\.example/)?[a-z]{1,4}@",
            bare in any::<bool>(),
        ) {
            let id = if bare { A.to_owned() } else { format!("{name}{A}") };
            if let Some(alias) = Alias::of(&written, Reported { image: &image, image_id: &id }, 1) {
                prop_assert!(alias.image == A && id == A || same_repository(&alias.image, &written), "{alias:?}");
            }
        }
    }

    #[test]
    fn without_a_report_only_docker_hub_has_two_names() {
        assert_eq!(
            alias("busybox:1", "", ""),
            Some(("docker.io/library/busybox:1".to_owned(), false))
        );
        assert_eq!(alias("r.example/x:1", "", ""), None);
        assert_eq!(alias(A, "", A), None);
        assert_eq!(alias("not an image", "", &format!("x@{A}")), None);
    }

    proptest! {
        #[test]
        fn an_alias_is_another_string_for_the_same_image(
            name in "([a-z]{1,5}\\.example(:[1-9][0-9]{0,3})?/)?[a-z]{1,8}(/[a-z0-9]{1,8}){0,2}",
            tag in "[a-z0-9]{1,6}",
            steps in 1..6_usize,
        ) {
            let id = format!("{name}@{A}");
            let reported = format!("{name}:{tag}");
            let mut written = reported.clone();
            for _ in 0..steps {
                let next = Alias::of(&written, Reported { image: &reported, image_id: &id }, 1).unwrap();
                prop_assert!(next.is_on_node && next.image != written);
                let (one, other) = (ImageReference::parse(&written).unwrap(), ImageReference::parse(&next.image).unwrap());
                prop_assert!(one.digest().is_none() || one.is_alias_of(&other), "{} {}", written, next.image);
                let shown = Reported { image: "", image_id: &id };
                prop_assert!(is_same_image(&next.image, &reported));
                prop_assert!(is_fresh_name_of(&next.image, &reported, shown));
                written = next.image;
            }
        }

        #[test]
        fn reading_is_total(written in ".{0,80}", image in ".{0,80}", image_id in ".{0,80}") {
            if let Some(alias) = Alias::of(&written, Reported { image: &image, image_id: &image_id }, 0) {
                prop_assert!(alias.image != written);
            }
        }
    }
}
