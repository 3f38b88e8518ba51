//! A release, pushed to a registry: its chart, as Helm takes it from there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio::process::Command;

use super::chart::{VALUES, helm, rendered, run_helm};
use crate::world::variable;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Small programs in the place of ours, for both platforms.
fn programs(folder: &Path) {
    for processor in ["x86_64", "aarch64"] {
        let of_target = folder.join(format!("{processor}-unknown-linux-gnu"));
        std::fs::create_dir_all(&of_target).unwrap();
        let stand_in = format!(
            "{}/quick-exit-image/bin/park-{processor}",
            env!("CARGO_MANIFEST_DIR")
        );
        for program in ["swaplet", "swaplet-demo"] {
            std::fs::copy(&stand_in, of_target.join(program)).unwrap();
        }
    }
}

/// A folder with a program that looks nothing up: the case is about what is pushed.
fn tools(folder: &Path) -> String {
    let deny = folder.join("cargo-deny");
    std::fs::write(&deny, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&deny, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), variable("PATH"))
}

#[tokio::test]
async fn the_chart_of_a_release_comes_from_the_registry_as_it_is_here() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!(
        "{}/release-{}",
        variable("SWAPLET_E2E_REGISTRY"),
        std::process::id()
    );
    programs(folder.path());
    let output = Command::new("python3")
        .arg("deploy/release")
        .arg(folder.path().join("made"))
        .arg("--programs")
        .arg(folder.path())
        .args(["--swaplet", env!("CARGO_BIN_EXE_swaplet")])
        .args(["--helm", &helm(), "--push", &place])
        .env("PATH", tools(folder.path()))
        .env("CARGO_NET_OFFLINE", "true")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for image in ["controller", "exit", "park"] {
        let name = format!("{place}/{image}:v{VERSION} ");
        let pushed = said.lines().find(|line| line.starts_with(&name));
        let is_for_both = |line: &str| line.contains("amd64 ") && line.contains("arm64 ");
        assert!(pushed.is_some_and(is_for_both), "{image}: {said}");
    }
    let chart = format!("oci://{place}/charts/swaplet");
    let template = [
        "template",
        "swaplet",
        &chart,
        "--version",
        VERSION,
        "--plain-http",
    ];
    let values = ["--namespace", "swaplet", "--set", VALUES];
    let from_registry = run_helm(&[&template[..], &values].concat()).await.unwrap();
    assert!(
        from_registry == rendered(VALUES).await.unwrap(),
        "another chart than deploy/chart"
    );
}
