//! What whoever installs is told: after an installation, and where values are wrong.

use tokio::process::Command;

use super::{CHART, VALUES, rendered, run_helm};

/// What is said after an installation. Helm prints that only to those who install, and by the version
/// of their cluster: so the text is rendered as a manifest of a copy of the chart.
async fn notes(values: &str, kubernetes: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("chart");
    let copied = Command::new("cp")
        .arg("-rL")
        .arg(CHART)
        .arg(&chart)
        .status()
        .await;
    assert!(copied.unwrap().success());
    let notes = std::fs::read_to_string(chart.join("templates/NOTES.txt")).unwrap();
    let manifest = format!(
        "{{{{- define \"notes\" }}}}{notes}{{{{ end }}}}\nkind: Notes\nsaid: {{{{ include \"notes\" . | toJson }}}}\n"
    );
    std::fs::write(chart.join("templates/said.yaml"), manifest).unwrap();
    let values = format!("{VALUES},{values}");
    let arguments = [
        "template",
        "swaplet",
        chart.to_str().unwrap(),
        "--set",
        &values,
    ];
    let only = [
        "--show-only",
        "templates/said.yaml",
        "--kube-version",
        kubernetes,
    ];
    run_helm(&[&arguments[..], &only].concat()).await.unwrap()
}

#[tokio::test]
async fn a2_who_installs_is_told_that_nothing_is_restarted_without_the_leash() {
    const NOTHING: &str = "BUT IT RESTARTS NOTHING";
    let old = notes("restart.enabled=true", "1.29.0").await;
    assert!(
        old.contains(NOTHING) && old.contains("older than 1.30"),
        "{old}"
    );
    let off = notes("restart.enabled=true,leash.enabled=false", "1.34.0").await;
    assert!(
        off.contains(NOTHING) && off.contains("leash.enabled is false"),
        "{off}"
    );
    for (values, kubernetes) in [
        ("restart.enabled=true", "1.30.0"),
        ("restart.enabled=true,restart.withoutLeash=true", "1.29.0"),
        ("leash.enabled=false", "1.29.0"),
    ] {
        let others = notes(values, kubernetes).await;
        assert!(
            others.contains("swaplet works in") && !others.contains(NOTHING),
            "{others}"
        );
    }
}

#[tokio::test]
async fn values_that_are_wrong_are_refused_with_a_reason() {
    for (values, reason) in [
        (
            "image=a,terminate.exitImage=b,warm.enabled=true,warm.namespace=swaplet",
            "warm.namespace is the namespace of the release",
        ),
        (
            "image=a,terminate.exitImage=b,restart.onConfig.secrets=true",
            "restart.onConfig.secretNamespaces",
        ),
        (
            "image=a,terminate.exitImage=b,restart.onConfig.secretNamespaces=true",
            "secretNamespaces",
        ),
        (
            "image=a,terminate.exitImage=b,imageDigest=sha256:1",
            "imageDigest",
        ),
        ("terminate.exitImage=a", "image is not set"),
        ("image=a", "terminate.exitImage is not set"),
        ("image=a,terminate.enabled=false", "nothing is on"),
        (
            "image=a,terminate.exitImage=b,warm.enabled=true,warm.jobs.enabled=true",
            "parkImage is not set",
        ),
        (
            "image=a,terminate.exitImage=b,warm.jobs.enabled=true,parkImage=c",
            "warm.enabled",
        ),
        (
            "image=a,terminate.enabled=false,warm.enabled=true,warm.jobs.enabled=true,warm.jobs.exitImages=true,parkImage=c",
            "warm.jobs.exitImages needs an exit image",
        ),
        (
            "image=a,terminate.exitImage=b,restart.parkImage=c",
            "parkImage",
        ),
        ("image=a,terminate.exitImage=b,replica=3", "replica"),
        (
            "image=a,terminate.exitImage=b,namespaces={UPPER}",
            "namespaces",
        ),
        (
            "image=a,terminate.exitImage=b,terminate.finish=sometimes",
            "finish",
        ),
    ] {
        let words = rendered(values).await.unwrap_err();
        assert!(words.contains(reason), "{values}: {words}");
    }
}
