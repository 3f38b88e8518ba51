use super::*;
use crate::build::build_standard;
use swaplet_core::image::Kind;

fn reference(written: &str) -> ImageReference {
    ImageReference::parse(written).unwrap()
}

#[test]
fn a_reference_needs_a_tag_and_the_right_digest() {
    let image = build_standard(Kind::Park).unwrap();
    let check = |written: &str| {
        check_reference(&reference(written), &image).map_err(|error| error.to_string())
    };
    assert!(check("r.example/park:v1").is_ok());
    assert!(check("r.example/park").is_ok(), "latest");
    assert!(check(&format!("r.example/park:v1@{}", image.digest())).is_ok());
    assert!(
        check(&format!("r.example/park@{}", image.digest()))
            .unwrap_err()
            .contains("REPOSITORY:TAG")
    );
    let other = format!("sha256:{}", "a".repeat(64));
    assert!(
        check(&format!("r.example/park:v1@{other}"))
            .unwrap_err()
            .contains("pinned")
    );
    assert!(
        check(&format!("r.example/park:{}", "t".repeat(125)))
            .unwrap_err()
            .contains("too long")
    );
}

#[test]
fn a_push_can_run_on_any_thread() {
    fn must_be_send<T: Send>(
        _: impl Fn(&'static Registry, &'static ImageReference, &'static BuiltImage) -> T,
    ) {
    }
    must_be_send(|registry, reference, image| push(registry, reference, image, false));
}

#[test]
fn platforms_go_under_their_own_tags() {
    let targets = Targets::new(
        &reference("r.example/park:v1"),
        &build_standard(Kind::Park).unwrap(),
    )
    .unwrap();
    let all = std::iter::once(&targets.index).chain(&targets.platforms);
    let all: Vec<&str> = all.map(ImageReference::as_str).collect();
    assert_eq!(
        all,
        [
            "r.example/park:v1",
            "r.example/park:v1-amd64",
            "r.example/park:v1-arm64"
        ]
    );
}

#[test]
fn what_may_be_overwritten() {
    let at = reference("r.example/a:v1");
    for (holding, force, allowed) in [
        (Holding::Nothing, false, true),
        (Holding::Ours(Label::Exit), false, true),
        (Holding::Ours(Label::Park), false, false),
        (Holding::Ours(Label::Park), true, false),
        (Holding::Foreign, false, false),
        (Holding::Foreign, true, true),
    ] {
        assert_eq!(
            guard(&at, holding, Label::Exit, force).is_ok(),
            allowed,
            "{holding:?} {force}"
        );
    }
}
