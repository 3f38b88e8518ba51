//! Starts whoever ends the sidecars.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::cluster::api::Request;
use crate::cluster::objects::EXIT;
use crate::cluster::server::{Cluster, User, free_port};
use crate::judge::process::Managed;
use crate::options::{Contestant, Options};

const PATIENCE: Duration = Duration::from_secs(120);
const WEBHOOKS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kruise-mutating-webhook-configuration",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kruise-validating-webhook-configuration",
];

/// The variable of swaplet's image that says how much freed memory the C library keeps.
const MALLOC: (&str, &str) = ("MALLOC_TRIM_THRESHOLD_", "131072");

impl Contestant {
    /// As whom it writes.
    pub fn user(self) -> User {
        match self {
            Self::Bare => User::Bare,
            Self::Swaplet => User::Swaplet,
            Self::Openkruise | Self::OpenkruiseLifted => User::OpenKruise,
        }
    }

    /// Puts what it needs into the API server.
    ///
    /// # Errors
    /// Where that fails, or its programs are not there.
    pub async fn install(self, cluster: &Cluster, options: &Options) -> Result<()> {
        if !matches!(self, Self::Openkruise | Self::OpenkruiseLifted) {
            return Ok(());
        }
        // Those of the session before.
        for path in WEBHOOKS {
            let _ = fs::remove_file(kept(cluster, path));
        }
        let manifest = options
            .kruise_manifest
            .as_ref()
            .context("OpenKruise is not built: start bench/run")?;
        let config = cluster.kubeconfig(User::Node, cluster.port)?;
        let mut apply = Command::new("kubectl");
        apply
            .arg("--kubeconfig")
            .arg(config)
            .args(["apply", "--server-side", "--force-conflicts", "--filename"])
            .arg(manifest);
        let output = apply.output().await?;
        ensure!(
            output.status.success(),
            "kubectl apply: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Starts its process, which reaches the API server by this port.
    ///
    /// # Errors
    /// Where it does not start.
    pub async fn start(self, cluster: &Cluster, options: &Options, port: u16) -> Result<Managed> {
        let config = cluster.kubeconfig(self.user(), port)?;
        let log = cluster.file(&format!("log/{self:?}.log"));
        if self == Self::Swaplet {
            let mut command = Command::new(&options.swaplet);
            command.args([
                "run",
                "--exit-image",
                EXIT,
                "--exit-images",
                EXIT,
                "--state-namespace",
                "swaplet",
                "--leader-elect",
                "--kubeconfig",
            ]);
            command.arg(config).env("POD_NAME", "swaplet-0");
            command.env(MALLOC.0, MALLOC.1);
            return Managed::start(&mut command, &log);
        }
        let health = free_port()?;
        let program = options
            .kruise_manager
            .as_ref()
            .context("OpenKruise is not built: start bench/run")?;
        let mut command = Command::new(program);
        command
            .env("POD_NAMESPACE", "kruise-system")
            .env("WEBHOOK_HOST", "127.0.0.1")
            .env("WEBHOOK_PORT", free_port()?.to_string());
        command
            .env("WEBHOOK_CERT_DIR", cluster.file("kruise-certs"))
            .arg("--kubeconfig")
            .arg(config);
        command.args([
            format!("--metrics-addr=127.0.0.1:{}", free_port()?),
            format!("--health-probe-addr=127.0.0.1:{health}"),
        ]);
        command.args([
            "--enable-pprof=false",
            "--feature-gates=SidecarTerminator=true",
        ]);
        if self == Self::OpenkruiseLifted {
            command.args([
                "--rest-config-qps=5000",
                "--rest-config-burst=5000",
                "--sidecarterminator-workers=64",
            ]);
        }
        // It does not get ready without its webhooks, which were removed when it was started before.
        if self == Self::OpenkruiseLifted {
            restore_webhooks(cluster).await?;
        }
        let mut process = Managed::start(&mut command, &log)?;
        wait_healthy(&mut process, health).await?;
        if self == Self::OpenkruiseLifted {
            remove_webhooks(cluster).await?;
        }
        Ok(process)
    }
}

async fn wait_healthy(process: &mut Managed, port: u16) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    let url = format!("http://127.0.0.1:{port}/readyz");
    while !Command::new("curl")
        .args(["-fsS", "--max-time", "5", "--output", "/dev/null", &url])
        .output()
        .await?
        .status
        .success()
    {
        if Instant::now() > until || !process.lives() {
            bail!("OpenKruise's manager does not get ready: see its log");
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Where a webhook configuration is kept while it is removed.
fn kept(cluster: &Cluster, path: &str) -> PathBuf {
    cluster.file(&path.replace('/', "_"))
}

async fn remove_webhooks(cluster: &Cluster) -> Result<()> {
    let admin = cluster.endpoint(User::Node, "kubectl/v1.34.0")?;
    for path in WEBHOOKS {
        let mut object = admin.once(&Request::get(path)).await?;
        object["metadata"] = json!({"name": object["metadata"]["name"]});
        fs::write(kept(cluster, path), object.to_string())?;
        let mut request = Request::get(path);
        request.method = Method::DELETE;
        admin.once(&request).await?;
    }
    Ok(())
}

async fn restore_webhooks(cluster: &Cluster) -> Result<()> {
    let admin = cluster.endpoint(User::Node, "kubectl/v1.34.0")?;
    for path in WEBHOOKS
        .into_iter()
        .filter(|path| kept(cluster, path).exists())
    {
        let object: Value = serde_json::from_str(&fs::read_to_string(kept(cluster, path))?)?;
        let (all, _) = path.rsplit_once('/').context("a path")?;
        admin.once(&Request::create(0, all, &object)).await?;
        fs::remove_file(kept(cluster, path))?;
    }
    Ok(())
}
