//! What is said of exit images that may need credentials.

use super::{MARK, check, job};

const EXIT: [&str; 2] = ["--exit-image", "r.example/swaplet/exit:v1"];

fn of(policy: &str, secrets: &str) -> String {
    let sidecar = format!("      - {{name: side, image: \"proxy:1\", {MARK}}}\n");
    job("report", &sidecar).replace(
        "restartPolicy: Never\n",
        &format!("restartPolicy: {policy}\n{secrets}"),
    )
}

fn with(more: &[&str], manifest: &str) -> (i32, String) {
    let ran = check(manifest, &[&EXIT, more].concat());
    (ran.code, ran.flat() + &ran.err)
}

#[test]
fn l3_a_private_exit_image_under_never_is_told_with_the_method_and_the_fix() {
    let (code, said) = with(&["--exit-image-is-public=false"], &of("Never", ""));
    assert_eq!(code, 0, "{said}");
    for words in [
        "the pod has no imagePullSecrets",
        "the registry of r.example/swaplet/exit:v1 wants credentials",
        "keep it in a public repository",
        "--exit-image-is-public=true",
        "the phase of the pod is written instead",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let secrets = "      imagePullSecrets: [{name: own}, {name: other}]\n";
    let (_, said) = with(&["--exit-image-is-public=false"], &of("Never", secrets));
    assert!(
        said.contains("its imagePullSecrets (own, other) are not read"),
        "{said}"
    );
}

#[test]
fn l3_where_the_phase_may_not_be_written_such_a_sidecar_does_not_end() {
    let more = ["--exit-image-is-public=false", "--finish=never"];
    let (code, said) = with(&more, &of("Never", ""));
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("NotPublic") && said.contains("start the controller without --finish=never"),
        "{said}"
    );
}

#[test]
fn l3_nothing_is_told_where_it_costs_nothing() {
    let private = "--exit-image-is-public=false";
    for (more, manifest) in [
        (&["--exit-image-is-public=true"][..], of("Never", "")),
        (&[private], of("OnFailure", "")),
        (&[private, "--virtual-nodes"], of("Never", "")),
    ] {
        let (code, said) = with(more, &manifest);
        assert_eq!(code, 0, "{said}");
        assert!(!said.contains("credentials"), "{more:?}: {said}");
    }
    let ran = check(&of("Never", ""), &[]);
    assert!(
        !ran.flat().contains("credentials"),
        "no exit image is named"
    );
}

/// What a kubelet would make of an exit image matters where one may run the pod.
#[test]
fn u187_pods_of_virtual_nodes_are_not_judged_by_ordinary_ones() {
    let own = "env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE, value: \"r.example/own:v1\"}]";
    let side = format!("name: side, image: \"proxy:1\", {own}, command: [/usr/local/bin/envoy]");
    let manifest = job("report", &format!("      - {{{side}}}\n"));
    for (more, code, is_doubtful) in [
        (&["--finish=never"][..], 1, true),
        (&["--finish=never", "--virtual-nodes"], 0, false),
        (&["--virtual-nodes"], 0, false),
    ] {
        let ran = check(&manifest, &[more, &["-o", "json"]].concat());
        assert_eq!(ran.code, code, "{more:?}: {}{}", ran.out, ran.err);
        let told = ran.out.contains("it is not certain that its exit image");
        assert_eq!(told, is_doubtful, "{more:?}: {}", ran.out);
        let is_native = ran.out.contains("\"couldBeNative\": true");
        assert_eq!(is_native, is_doubtful, "{more:?}: {}", ran.out);
    }
}
