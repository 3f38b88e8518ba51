//! The controller as a process of its own: the real binary, outside of the cluster, with the rights
//! and the leash of an installation.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::leashes;
use crate::world::{PATIENCE, World};

pub struct Process(Child);

impl Process {
    /// OpenKruise may be on the cluster for cases about it; to all others it is as if it were not.
    pub async fn start_with(world: &World, arguments: &[&str]) -> Self {
        Self::start_beside_openkruise(world, &[arguments, &["--coexist=own"]].concat()).await
    }

    /// One of several; `name` is what its pod would be called.
    pub async fn competing(world: &World, name: &str) -> Self {
        Self::spawn(
            world,
            &[
                "--state-namespace",
                &world.namespace,
                "--leader-elect",
                "--coexist=own",
            ],
            name,
        )
        .await
    }

    /// As it is started without a word about OpenKruise.
    pub async fn start_beside_openkruise(world: &World, arguments: &[&str]) -> Self {
        Self::spawn(world, arguments, "swaplet").await
    }

    /// With the exit image of all cases, unless the case has its own.
    async fn spawn(world: &World, arguments: &[&str], name: &str) -> Self {
        let exit_image = ["--exit-image", &world.images.exit];
        let is_own = arguments.contains(&exit_image[0]);
        let mut child = Command::new(env!("CARGO_BIN_EXE_swaplet"))
            .args(["run", "--namespace", &world.namespace, "--kubeconfig"])
            .arg(&world.kubeconfig)
            .args(exit_image.iter().filter(|_| !is_own))
            .args(arguments)
            .env("RUST_LOG", "info,kube=warn")
            .env("POD_NAME", name)
            .env("SWAPLET_LEASH", leashes::name())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let process = format!("{}/{name}", world.namespace);
        let watches = async {
            // A busy API server may be complained of before.
            while let Some(line) = lines.next_line().await.unwrap() {
                println!("{process}: {line}");
                if line.contains("watching pods") {
                    return;
                }
            }
            panic!("{process} has ended");
        };
        timeout(PATIENCE, watches)
            .await
            .expect("a line that it watches");
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                println!("{process}: {line}");
            }
        });
        Self(child)
    }

    /// Sends it this signal, by its name without `SIG`.
    pub async fn signal(&self, signal: &str) {
        let process = self.0.id().unwrap().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &process])
                .status()
                .await
                .unwrap()
                .success()
        );
    }

    /// SIGTERM: it finishes what is under way.
    pub async fn stop(mut self) {
        self.signal("TERM").await;
        assert!(self.0.wait().await.unwrap().success());
    }

    /// SIGKILL: it gets no chance to finish anything.
    pub async fn kill(mut self) {
        self.0.kill().await.unwrap();
    }
}
