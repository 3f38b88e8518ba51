//! etcd and kube-apiserver as processes, on loopback and a socket, with their data where the state
//! folder is. A state that was seeded once is copied for each session, so all begin with the same.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::api::{Endpoint, Request};
use crate::judge::process::Managed;
use crate::options::Options;

const PATIENCE: Duration = Duration::from_secs(120);
/// Who wrote what, and when: without bodies, which would cost the server more than the writes do.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n  - level: None\n    users: [\"system:apiserver\"]\n  - level: Metadata\n";

/// Who speaks to the API server. The contestants are ServiceAccounts, so that priority and fairness
/// treats all of them as it would in a cluster; the load driver is exempt, as it stands for many nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The load driver.
    Node,
    /// The bare patches.
    Bare,
    /// Swaplet.
    Swaplet,
    /// The manager of OpenKruise.
    OpenKruise,
}

impl User {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Node, Self::Bare, Self::Swaplet, Self::OpenKruise];

    /// As the audit log names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "bench-node",
            Self::Bare => "system:serviceaccount:bench:bare",
            Self::Swaplet => "system:serviceaccount:swaplet:swaplet",
            Self::OpenKruise => "system:serviceaccount:kruise-system:kruise-manager",
        }
    }

    fn groups(self) -> &'static str {
        match self {
            Self::Node => "system:masters",
            _ => "system:serviceaccounts",
        }
    }
}

/// An API server with its etcd.
pub struct Cluster {
    state: PathBuf,
    programs: PathBuf,
    /// Where it listens.
    pub port: u16,
    running: Vec<Managed>,
}

/// A port that nobody listens on. Ports below 32768 are never handed out to outgoing connections:
/// who asks such a port of its own again and again may reach itself.
///
/// # Errors
/// Where there is none.
pub fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let port = 20_000 + u16::from_le_bytes(random()?) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

async fn succeeds(command: &mut Command) -> Result<()> {
    let output = command.output().await?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{:?}: {words}", command.as_std());
    Ok(())
}

impl Cluster {
    /// Writes keys, tokens and the audit policy; nothing runs yet.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub async fn prepare(options: &Options) -> Result<Self> {
        let state = options.state.clone();
        fs::create_dir_all(state.join("log"))?;
        fs::write(state.join("audit-policy.yaml"), AUDIT_POLICY)?;
        let key = state.join("sa.key");
        succeeds(
            Command::new("openssl")
                .args(["genrsa", "-out"])
                .arg(&key)
                .arg("2048"),
        )
        .await?;
        let programs = options.cluster_programs.clone();
        let cluster = Self {
            state,
            programs,
            port: free_port()?,
            running: Vec::new(),
        };
        let mut lines = String::new();
        for user in User::ALL {
            lines += &format!(
                "{},{name},{name},\"{}\"\n",
                random_token()?,
                user.groups(),
                name = user.name()
            );
        }
        fs::write(cluster.state.join("tokens.csv"), lines)?;
        Ok(cluster)
    }

    /// A file in the state folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// The token of a user.
    ///
    /// # Errors
    /// Where the file of tokens is gone.
    pub fn token(&self, user: User) -> Result<String> {
        let tokens = fs::read_to_string(self.file("tokens.csv"))?;
        let line = tokens
            .lines()
            .find(|line| line.contains(&format!(",{},", user.name())));
        let token = line.and_then(|line| line.split(',').next());
        Ok(token.context("no token")?.to_owned())
    }

    /// As whom to speak to it.
    ///
    /// # Errors
    /// Where the server has never run.
    pub fn endpoint(&self, user: User, agent: &'static str) -> Result<Endpoint> {
        Endpoint::new(self.port, &self.certificates(), &self.token(user)?, agent)
    }

    /// A kubeconfig of a user, by way of this port.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn kubeconfig(&self, user: User, port: u16) -> Result<PathBuf> {
        let file = self.file(&format!("{user:?}-{port}.kubeconfig"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: bench\ncontexts:\n  - {{name: bench, context: {{cluster: bench, user: bench}}}}\n\
            clusters:\n  - {{name: bench, cluster: {{server: \"https://127.0.0.1:{port}\", certificate-authority: {}}}}}\n\
            users:\n  - {{name: bench, user: {{token: \"{}\"}}}}\n",
            self.certificates().display(),
            self.token(user)?
        );
        fs::write(&file, text)?;
        Ok(file)
    }

    fn certificates(&self) -> PathBuf {
        self.file("apiserver/apiserver.crt")
    }

    /// Starts both, with the data of this snapshot, or with none.
    ///
    /// # Errors
    /// Where the API server does not get ready.
    pub async fn start(&mut self, snapshot: Option<&Path>) -> Result<()> {
        let data = self.file("etcd");
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        if let Some(snapshot) = snapshot {
            succeeds(Command::new("cp").arg("-a").arg(snapshot).arg(&data)).await?;
        }
        let etcd = Managed::start(&mut self.etcd(), &self.file("log/etcd.log"))?;
        self.running.push(etcd);
        self.start_api_server().await
    }

    async fn start_api_server(&mut self) -> Result<()> {
        let server = Managed::start(&mut self.api_server(), &self.file("log/apiserver.log"))?;
        self.running.push(server);
        let until = Instant::now() + PATIENCE;
        while self.ask_ready().await.is_err() {
            if Instant::now() > until || !self.running.iter_mut().all(Managed::lives) {
                bail!(
                    "the API server does not get ready: see {}",
                    self.file("log/apiserver.log").display()
                );
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn ask_ready(&self) -> Result<()> {
        let mut connection = self.endpoint(User::Node, "bench")?.connect().await?;
        let (status, _) = connection.send(&Request::get("/readyz")).await?;
        ensure!(status.is_success(), "not ready");
        Ok(())
    }

    /// Kills the API server and starts it again: all watches end, and what they were at is too old.
    /// It ends in its own time otherwise, which is longer than others keep their Leases.
    ///
    /// # Errors
    /// Where it does not get ready.
    pub async fn restart_api_server(&mut self) -> Result<()> {
        self.running.pop().context("nothing runs")?.kill().await?;
        self.start_api_server().await
    }

    /// Ends both.
    ///
    /// # Errors
    /// Where one does not end.
    pub async fn stop(&mut self) -> Result<()> {
        while let Some(process) = self.running.pop() {
            process.stop().await?;
        }
        Ok(())
    }

    /// Ends both and keeps the data under this name.
    ///
    /// # Errors
    /// Where one does not end.
    pub async fn keep(&mut self, name: &str) -> Result<PathBuf> {
        self.stop().await?;
        let snapshot = self.file(name);
        fs::rename(self.file("etcd"), &snapshot)?;
        Ok(snapshot)
    }

    fn etcd(&self) -> Command {
        let socket = self.file("etcd.sock");
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(self.programs.join("etcd"));
        command.current_dir(&self.state).args([
            "--name",
            "bench",
            "--unsafe-no-fsync",
            "--log-level",
            "warn",
            "--data-dir",
        ]);
        command.arg(self.file("etcd")).args([
            "--quota-backend-bytes",
            "8589934592",
            "--listen-client-urls",
        ]);
        command
            .arg(format!("unix://{}", socket.display()))
            .args(["--advertise-client-urls", "unix://client:1"]);
        // The peer socket is unused, but etcd insists on a URL that looks like host:port.
        command.args([
            "--listen-peer-urls",
            "unix://peer:1",
            "--initial-advertise-peer-urls",
            "unix://peer:1",
        ]);
        command.args(["--initial-cluster", "bench=unix://peer:1"]);
        command
    }

    fn api_server(&self) -> Command {
        let mut command = Command::new(self.programs.join("kube-apiserver"));
        let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
        let file = |name: &str| self.file(name).display().to_string();
        command.args([
            flag("etcd-servers", &format!("unix://{}", file("etcd.sock"))),
            flag("bind-address", &"127.0.0.1"),
            flag("advertise-address", &"127.0.0.1"),
            flag("secure-port", &self.port),
            flag("endpoint-reconciler-type", &"none"),
            flag("cert-dir", &file("apiserver")),
            flag("token-auth-file", &file("tokens.csv")),
            flag("authorization-mode", &"RBAC"),
            flag("service-account-issuer", &"https://kubernetes.default.svc"),
            flag("service-account-key-file", &file("sa.key")),
            flag("service-account-signing-key-file", &file("sa.key")),
            flag("service-cluster-ip-range", &"10.214.0.0/24"),
            flag("audit-policy-file", &file("audit-policy.yaml")),
            flag("audit-log-path", &file("audit.log")),
            flag("audit-log-maxsize", &8192),
        ]);
        command
    }
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn random_token() -> Result<String> {
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
