//! `swaplet exit-image push --for`.

use tempfile::TempDir;

use super::{Ran, good, job, on_a_volume, sidecar, swaplet, unknown, with_stdin, write};

pub(super) fn push_for(text: &str, more: &[&str]) -> Ran {
    with_stdin(
        &[
            &[
                "exit-image",
                "push",
                "registry.example/exit:v1",
                "--dry-run",
                "--for",
                "-",
            ],
            more,
        ]
        .concat(),
        text,
    )
}

fn digest(ran: &Ran) -> &str {
    ran.out
        .split_whitespace()
        .find(|word| word.starts_with("sha256:"))
        .unwrap_or_else(|| panic!("{}{}", ran.out, ran.err))
}

#[test]
fn an_image_for_manifests_has_what_they_need_and_a_digest_that_is_known_before() {
    let ran = push_for(&unknown(), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("would be pushed")
            && ran
                .out
                .contains("has besides the standard paths: /opt/own/server"),
        "{}",
        ran.out
    );
    assert_eq!(
        digest(&ran),
        digest(&push_for(&format!("{}---\n{}", good(), unknown()), &[])),
        "the standard paths are in it anyway"
    );
    let standard = swaplet(&[
        "exit-image",
        "push",
        "registry.example/exit:v1",
        "--dry-run",
    ]);
    assert_ne!(digest(&ran), digest(&standard));
    let enough = push_for(&good(), &[]);
    assert_eq!(digest(&enough), digest(&standard));
    assert!(
        enough.out.contains("standard paths are enough"),
        "{}",
        enough.out
    );
}

/// The controller names paths, manifests name containers: what is pushed for either is the same.
#[test]
fn an_image_for_paths_is_the_image_for_the_manifest_that_needs_them() {
    let push = |more: &[&str]| {
        swaplet(
            &[
                &[
                    "exit-image",
                    "push",
                    "registry.example/exit:v1",
                    "--dry-run",
                ],
                more,
            ]
            .concat(),
        )
    };
    assert_eq!(
        digest(&push(&["--path", "/opt/own/server"])),
        digest(&push_for(&unknown(), &[]))
    );
    let ran = push(&["--path", "relative"]);
    assert_eq!((ran.code, &*ran.out), (1, ""));
    assert!(
        ran.err.contains("relative") && ran.err.contains("not absolute"),
        "{}",
        ran.err
    );
}

/// What `check` prints is pasted.
#[test]
fn the_command_for_a_sidecar_runs_nothing_that_a_file_or_a_manifest_says() {
    let own = "      - {name: \"own;reboot\", image: \"side:1\", command: [/opt/own/server]}\n";
    let text = job("quoted", own).replace(
        "  template:\n",
        "  template:\n    metadata: {annotations: {swaplet.io/sidecars: \"own;reboot\"}}\n",
    );
    let folder = TempDir::new().unwrap();
    write(folder.path(), "$(reboot).yaml", &text);
    let file = folder.path().join("$(reboot).yaml");
    let file = file.to_str().unwrap();
    let command = format!("exit-image push REF --for '{file}' --sidecar 'own;reboot'");
    for output in ["table", "json"] {
        let ran = swaplet(&["check", file, "-o", output]);
        assert!(
            ran.out.contains(&command),
            "{output}: {}{}",
            ran.out,
            ran.err
        );
    }
}

#[test]
fn what_no_image_ends_is_named() {
    let ran = push_for(&format!("{}---\n{}", unknown(), on_a_volume()), &[]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.err.contains("no exit image ends tool of Job/volume"),
        "{}",
        ran.err
    );
}

#[test]
fn paths_of_manifests_do_not_control_the_terminal() {
    let own = sidecar("own", "command: [\"/opt/own/\\e[2Jserver\"]");
    let ran = push_for(&job("own", &own), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("/opt/own/?[2Jserver") && !ran.out.contains('\u{1b}'),
        "{}",
        ran.out
    );
}

#[test]
fn the_standard_paths_are_not_enough_for_what_no_image_ends() {
    let ran = push_for(&format!("{}---\n{}", good(), on_a_volume()), &[]);
    assert!(
        ran.code == 0 && !ran.out.contains("enough") && ran.out.contains("does not end 1 sidecar"),
        "{}{}",
        ran.out,
        ran.err
    );
    let path = push_for(&on_a_volume(), &["--path", "/opt/own/server"]);
    assert!(
        path.code == 0 && path.out.contains("/opt/own/server"),
        "{}{}",
        path.out,
        path.err
    );
}

/// The reference may hold an image that has the paths, as long as nothing is pushed over it.
#[test]
fn nothing_is_pushed_for_manifests_without_a_sidecar_that_it_would_end() {
    let folder = TempDir::new().unwrap();
    let reference = "registry.example/exit:v1";
    let empty = ["exit-image", "push", reference, "--dry-run", "--for"];
    let empty = [&empty[..], &[folder.path().to_str().unwrap()]].concat();
    for (ran, words) in [
        (push_for("", &[]), "did the command before it fail?"),
        (swaplet(&empty), "no manifest (.yaml, .yml, .json)"),
        (
            push_for(&job("plain", ""), &[]),
            "no container in --for is a sidecar: set env",
        ),
        (
            push_for(&good(), &["--sidecar", "proxi"]),
            "--sidecar proxi: no container has this name; there are main, proxy",
        ),
        (
            push_for(&on_a_volume(), &[]),
            "no exit image ends tool of Job/volume",
        ),
    ] {
        assert_eq!((ran.code, &*ran.out), (1, ""), "{}", ran.err);
        assert!(
            ran.err.contains("nothing was pushed") && ran.err.contains(words),
            "{words}: {}",
            ran.err
        );
    }
}

#[test]
fn sidecars_that_cannot_share_an_image_are_an_error() {
    let both = [
        sidecar("a", "command: [/opt/a]"),
        sidecar("b", "command: [/opt/a/b]"),
    ]
    .concat();
    let ran = push_for(&job("both", &both), &[]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("need two images") && ran.err.contains("/opt/a"),
        "{}",
        ran.err
    );
}

#[test]
fn nothing_is_pushed_for_half_of_the_manifests() {
    let ran = push_for("a: [\n", &[]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("nothing was pushed") && ran.out.is_empty(),
        "{}",
        ran.err
    );
}

#[test]
fn u63_a_path_that_no_image_can_have_is_not_taken_for_two_images() {
    let ran = swaplet(&[
        "exit-image",
        "push",
        "r.example/a:v1",
        "--dry-run",
        "--path",
        "opt/tool",
    ]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(
        ran.err
            .contains("\"opt/tool\" cannot be in an image: it is not absolute"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("two images"), "{}", ran.err);
}
