//! The controller of a case as an installation of its own.

use std::process::Command;

use super::chart::helm;
use super::installation::Installation;
use crate::shared::Shared;
use crate::world::World;

pub struct Installed {
    installation: Installation,
    /// The namespace of its case, where others have the same installation.
    shared_by: Option<String>,
}

impl Installed {
    /// Installs it with these flags of `swaplet run` and waits until a replica leads.
    pub async fn start(world: &World, arguments: &[&str]) -> Self {
        let values = values(world, arguments);
        let Some(shared) = Shared::of(&world.namespace) else {
            let installation = Installation::new(world).await;
            installation.helm("install", &["--set", &values]).await;
            installation.leader().await;
            return Self {
                installation,
                shared_by: None,
            };
        };
        let install = async || {
            let installation = Installation::new(world).await;
            installation
                .helm(
                    "install",
                    &[
                        "--set",
                        &values,
                        "--set",
                        &format!("namespaces={{{}}}", shared.namespaces()),
                    ],
                )
                .await;
            installation.leader().await;
        };
        shared.install(&values, install).await;
        Self {
            installation: Installation::of(world).await,
            shared_by: Some(world.namespace.clone()),
        }
    }

    /// SIGKILL to the replica that leads; comes back when another one does.
    pub async fn kill_leader(&self) {
        assert_eq!(self.shared_by, None, "it is not this case's alone");
        let leader = self.installation.leader().await;
        self.installation.kill_for_good(&leader).await;
        self.installation.leader_after(&leader).await;
    }
}

/// Where the case fails its log is shown, and all but its pods is left, as the namespace of the
/// case is.
impl Drop for Installed {
    fn drop(&mut self) {
        let namespace = &*self.installation.namespace;
        if std::thread::panicking() {
            let label = "app.kubernetes.io/name=swaplet";
            let output = Command::new("kubectl")
                .args([
                    "logs",
                    "-n",
                    namespace,
                    "-l",
                    label,
                    "--tail=-1",
                    "--prefix",
                ])
                .output();
            let log = output
                .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
                .unwrap_or_default();
            // What it has done for other cases says nothing of this one.
            let other = |line: &&str| {
                self.shared_by
                    .as_ref()
                    .is_some_and(|own| line.contains("e2e-") && !line.contains(&**own))
            };
            log.lines()
                .filter(|line| !other(line))
                .for_each(|line| println!("{line}"));
            return;
        }
        if self.shared_by.is_some() {
            return;
        }
        // Nobody has anything parked at the end of a case, whose own namespace is about to go.
        let uninstall = [
            "uninstall",
            "swaplet",
            "--no-hooks",
            "--namespace",
            namespace,
        ];
        let uninstalled = Command::new(helm())
            .args(uninstall)
            .output()
            .is_ok_and(|output| output.status.success());
        let delete = ["delete", "namespace", namespace, "--wait=false"];
        let deleted = Command::new("kubectl")
            .args(delete)
            .output()
            .is_ok_and(|output| output.status.success());
        assert!(uninstalled && deleted, "{namespace} is left");
    }
}

/// The values of the chart that come to these flags. What no value stands for fails the case.
fn values(world: &World, arguments: &[&str]) -> String {
    let mut values = vec![
        "log.format=text".to_owned(),
        "openkruise.coexist=auto".to_owned(),
        // The controller cannot reach the registry, which is on the loopback address of its node.
        "terminate.exitImageIsPublic=true".to_owned(),
    ];
    let mut words = arguments
        .iter()
        .flat_map(|argument| argument.splitn(2, '='));
    while let Some(flag) = words.next() {
        let mut value = || {
            words
                .next()
                .unwrap_or_else(|| panic!("{flag} has no value"))
        };
        values.push(match flag {
            "--coexist" => format!("openkruise.coexist={}", value()),
            "--exit-image-is-public" => format!("terminate.exitImageIsPublic={}", value()),
            "--finish" => format!("terminate.finish={}", value()),
            "--hot-upgrade" => "hotUpgrade.enabled=true".to_owned(),
            "--hot-upgrade-empty-images" => format!("hotUpgrade.emptyImages={{{}}}", value()),
            "--hot-upgrade-images" => format!("hotUpgrade.images={{{}}}", value()),
            "--park-image" => format!("parkImage={}", value()),
            "--predownload" => "predownload.enabled=true".to_owned(),
            "--prefer" => format!("terminate.prefer={}", value()),
            "--restart" => "restart.enabled=true".to_owned(),
            "--restart-readiness-gates" => "restart.readinessGates.enabled=true".to_owned(),
            "--restart-without-leash" => "restart.withoutLeash=true".to_owned(),
            "--sidecar-policies" => "sidecarPolicies.enabled=true".to_owned(),
            "--swap-under-never" => "terminate.swapUnderNever=true".to_owned(),
            "--warm" => format!(
                "warm.enabled=true,warm.jobs.enabled=true,warm.namespace={}",
                world.namespace
            ),
            "--warm-exit-images" => "warm.jobs.exitImages=true".to_owned(),
            "--warm-image-caches" => "warm.jobs.imageCaches=true".to_owned(),
            "--warm-image-cache-days" => format!("warm.jobs.imageCacheDays={}", value()),
            "--warm-startup-taint" => "warm.jobs.startupTaint=true".to_owned(),
            "--warm-startup-taint-namespace" => {
                format!("warm.jobs.startupTaintNamespaces={{{}}}", value())
            }
            "--warm-startup-taint-timeout" => format!("warm.jobs.startupTaintSeconds={}", value()),
            // An installation keeps its state beside itself.
            "--state-namespace" if value() == world.namespace => continue,
            // Somewhere else than in the namespace of the case, where only pods with secrets are
            // then.
            "--warm-namespace" => {
                value();
                format!(
                    "warm.namespace=,warm.jobs.secretNamespaces={{{}}}",
                    world.namespace
                )
            }
            _ => panic!("{flag}: no value of the chart stands for it"),
        });
    }
    values.join(",")
}
