//! The connection of a subcommand to its cluster.

use std::fs::read_to_string;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use secrecy::{ExposeSecret as _, SecretString};
use swaplet_controller::frame::connection::proxy::{Environment, way, without_credentials};
use swaplet_controller::frame::connection::{connect, connect_within};
use swaplet_controller::frame::list::{FOREIGN, is_unparsed, words};

use crate::duration;

/// The heading of the flags below in the help.
pub const HEADING: &str = "Cluster";

/// Which cluster, and as whom.
#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub struct ConnectionArgs {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's own account]
    #[arg(long, value_name = "FILE", env = "SWAPLET_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file
    #[arg(long, env = "SWAPLET_CONTEXT")]
    context: Option<String>,
    /// Act as this user; needs the right to impersonate it
    #[arg(long = "as", value_name = "USER", env = "SWAPLET_AS")]
    as_user: Option<String>,
    /// Act as a member of this group (repeatable); needs --as
    #[arg(
        hide_short_help = true,
        long,
        value_name = "GROUP",
        env = "SWAPLET_AS_GROUP",
        value_delimiter = ',',
        requires = "as_user"
    )]
    as_group: Vec<String>,
}

/// Which cluster, as whom, and how long an answer is waited for.
#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub struct ClusterArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// How long the API server may take to answer, such as 5s or 2m; 0: no limit
    #[arg(long, value_name = "DURATION", env = "SWAPLET_REQUEST_TIMEOUT", default_value = "30s", value_parser = duration::duration)]
    request_timeout: Duration,
}

impl ClusterArgs {
    /// Returns a client that never retries by itself. Each of its requests fails if it is not
    /// answered within `--request-timeout`.
    ///
    /// # Errors
    /// Fails without a usable configuration, and names where it was searched.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let limit = Some(self.request_timeout).filter(|limit| !limit.is_zero());
        Ok(connect_within(self.connection.config().await?, limit)?)
    }

    /// Like [`client`](Self::client), after the API server has reported its version: for commands
    /// that would keep querying a silent server, or take what another server does not have for what
    /// the cluster has not.
    ///
    /// # Errors
    /// Fails without a usable configuration, without an answer, or with one that is not an API
    /// server's.
    pub async fn client_that_answers(&self) -> anyhow::Result<Client> {
        let client = self.client().await?;
        match client.apiserver_version().await {
            Err(kube::Error::Api(status)) if is_unparsed(&status) => {
                bail!("HTTP {}, and {FOREIGN}", status.code)
            }
            // It says so of itself.
            Err(kube::Error::Api(status)) if status.is_forbidden() => {}
            answer => drop(answer.map_err(plain)?),
        }
        Ok(client)
    }
}

/// Returns the namespace that is named, else that of the context.
pub fn named_or_own(client: &Client, named: Option<&str>) -> String {
    named.unwrap_or(client.default_namespace()).to_owned()
}

/// Returns a namespace, or all of them, in words.
pub fn place_of(namespace: Option<&str>) -> String {
    namespace.map_or("all namespaces".to_owned(), |name| {
        format!("namespace {name}")
    })
}

impl ConnectionArgs {
    /// Returns a client that never retries by itself, and whose user sets the time for each
    /// request.
    ///
    /// # Errors
    /// Fails without a usable configuration, and names where it was searched.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Ok(connect(self.config().await?)?)
    }

    /// Returns the kubeconfig that was asked for, and what it is called in errors; `None` if none
    /// was, and the default file is not there. Nothing takes the place of one that cannot be used:
    /// that would be another cluster.
    fn kubeconfig(&self) -> anyhow::Result<Option<(String, Kubeconfig)>> {
        if let Some(file) = &self.kubeconfig {
            let name = format!("--kubeconfig {}", file.display());
            return Ok(Some((
                name.clone(),
                merged(std::slice::from_ref(file), &name)?,
            )));
        }
        match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
            Some(list) => {
                let name = format!("KUBECONFIG={}", list.display());
                let mut files: Vec<_> = std::env::split_paths(&list).collect();
                files.retain(|file| is_there(file));
                ensure!(
                    !files.is_empty(),
                    "{name}: no file of this list exists; name one that does, or unset KUBECONFIG"
                );
                Ok(Some((name.clone(), merged(&files, &name)?)))
            }
            None => {
                let home = std::env::home_dir().map(|home| home.join(".kube/config"));
                let Some(file) = home.filter(|file| is_there(file)) else {
                    return Ok(None);
                };
                let name = file.display().to_string();
                Ok(Some((name.clone(), merged(&[file], &name)?)))
            }
        }
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            // As in kubectl, an empty name is none.
            context: self.context.clone().filter(|name| !name.is_empty()),
            ..KubeConfigOptions::default()
        };
        let mut config = match self.kubeconfig()? {
            Some((file, read)) => from_file(read, &options).await.with_context(|| file)?,
            None if options.context.is_some() => bail!("--context: {NOWHERE}"),
            // Without the variables of a pod there is none, and nothing else is wrong.
            None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() => bail!(NOWHERE),
            None => Config::incluster().context(NOWHERE)?,
        };
        if self.as_user.is_some() {
            config.auth_info.impersonate.clone_from(&self.as_user);
            config.auth_info.impersonate_groups = Some(self.as_group.clone());
        }
        let agent = HeaderValue::from_static(concat!("swaplet/", env!("CARGO_PKG_VERSION")));
        config.headers.push((USER_AGENT, agent));
        Ok(config)
    }
}

/// The error that no cluster was named, and none is around.
const NOWHERE: &str =
    "cannot find a cluster: pass --kubeconfig FILE, set KUBECONFIG, or run in a pod";

/// Returns true if the file exists, or may: only what is known to be missing is left out.
fn is_there(file: &Path) -> bool {
    let kind = |error: std::io::Error| error.kind() != ErrorKind::NotADirectory;
    file.try_exists().unwrap_or_else(kind)
}

/// Reads these files as one: of two entries of a name the first one counts, as in kubectl.
fn merged(files: &[PathBuf], name: &str) -> anyhow::Result<Kubeconfig> {
    let mut all = Kubeconfig::default();
    for file in files {
        let cannot = || match files.len() {
            1 => name.to_owned(),
            _ => format!("{name}: {}", file.display()),
        };
        let read = Kubeconfig::read_from(file).map_err(reason);
        let mut read = read.with_context(cannot)?;
        unambiguous(&read).with_context(cannot)?;
        without_empty(&mut read);
        // kubectl writes an empty name where it has none.
        read.current_context = read.current_context.filter(|name| !name.is_empty());
        all = all.merge(read).map_err(reason).with_context(cannot)?;
    }
    Ok(all)
}

/// Returns the configuration of the context. Where kube reads a kubeconfig otherwise than kubectl,
/// it is as kubectl reads it.
async fn from_file(mut read: Kubeconfig, options: &KubeConfigOptions) -> anyhow::Result<Config> {
    let name = options.context.as_ref().or(read.current_context.as_ref());
    ensure!(
        name.is_some(),
        "it has no current-context: pass --context NAME, or run kubectl config use-context NAME"
    );
    let context = read.contexts.iter().find(|known| Some(&known.name) == name);
    let context = context.and_then(|known| known.context.clone());
    let context = context.unwrap_or_default();
    if let Some(user) = context.user.filter(|user| !user.is_empty()) {
        let known = read.auth_infos.iter_mut().find(|known| known.name == user);
        let known = known.with_context(|| format!("it has no user {user}, whom its context names"));
        known?.auth_info.as_mut().map_or(Ok(()), credentials)?;
    }
    let mut clusters = read.clusters.iter_mut();
    let cluster = clusters.find(|known| known.name == context.cluster);
    let own = match cluster.and_then(|known| known.cluster.as_mut()) {
        Some(cluster) => server(cluster)?,
        None => None,
    };
    let mut config = Config::from_custom_kubeconfig(read, options)
        .await
        .map_err(reason)?;
    if own.is_none() {
        let exec = config.auth_info.exec.as_mut();
        if let Some(told) = exec.and_then(|exec| exec.cluster.as_mut()) {
            told.proxy_url = None;
        }
        let proxy = Environment::read().proxy(&config.cluster_url);
        config.proxy_url = proxy.map_err(anyhow::Error::msg)?;
    }
    // No credentials go over the network for everybody to read.
    if config.cluster_url.scheme_str() != Some("https") {
        let user = std::mem::take(&mut config.auth_info);
        config.auth_info.impersonate = user.impersonate;
        config.auth_info.impersonate_groups = user.impersonate_groups;
    }
    if config.default_namespace.is_empty() {
        "default".clone_into(&mut config.default_namespace);
    }
    Ok(config)
}

/// Completes a cluster, and returns its own proxy.
fn server(cluster: &mut Cluster) -> anyhow::Result<Option<String>> {
    let has_ca =
        cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
    ensure!(
        !has_ca || cluster.insecure_skip_tls_verify != Some(true),
        "its cluster has a certificate-authority and insecure-skip-tls-verify, which exclude each other: drop one of them"
    );
    if let Some(server) = cluster.server.as_mut().filter(|url| !url.contains("://")) {
        server.insert_str(0, "http://");
    }
    let own = cluster.proxy_url.take().filter(|url| !url.is_empty());
    // Without one kube would read the environment, and refuse what it cannot read there.
    cluster.proxy_url = own.clone().or_else(|| Some("http://proxy.invalid".into()));
    Ok(own)
}

/// Completes the credentials of a user.
fn credentials(user: &mut AuthInfo) -> anyhow::Result<()> {
    let file = user.token_file.as_ref();
    if let Some(text) = file.and_then(|file| read_to_string(file).ok()) {
        user.token = None;
        // kube would send the end of the line as well. Such a file is not read again.
        if text.trim() != text {
            user.token = Some(text.trim().to_owned().into());
            user.token_file = None;
        }
    }
    if user.username.is_some() {
        let has_token = user.token.is_some() || user.token_file.is_some();
        ensure!(
            !has_token,
            "its user has a username and a token, of which only one can be used: drop one of them"
        );
        user.password.get_or_insert_with(|| String::new().into());
    }
    Ok(())
}

/// Takes an empty text for none, as kubectl does: templates leave them.
fn without_empty(read: &mut Kubeconfig) {
    let empty = |text: &mut Option<String>| *text = text.take().filter(|text| !text.is_empty());
    let secret = |text: &mut Option<SecretString>| {
        *text = text.take().filter(|text| !text.expose_secret().is_empty());
    };
    for cluster in read
        .clusters
        .iter_mut()
        .filter_map(|of| of.cluster.as_mut())
    {
        empty(&mut cluster.certificate_authority);
        empty(&mut cluster.certificate_authority_data);
        empty(&mut cluster.tls_server_name);
    }
    for user in read
        .auth_infos
        .iter_mut()
        .filter_map(|of| of.auth_info.as_mut())
    {
        empty(&mut user.impersonate);
        empty(&mut user.username);
        empty(&mut user.token_file);
        empty(&mut user.client_certificate);
        empty(&mut user.client_certificate_data);
        empty(&mut user.client_key);
        secret(&mut user.client_key_data);
        secret(&mut user.password);
        secret(&mut user.token);
    }
}

/// Fails where two entries of a file have the same name: kube would take the first one.
fn unambiguous(read: &Kubeconfig) -> anyhow::Result<()> {
    let clusters: Vec<_> = read.clusters.iter().map(|of| &of.name).collect();
    let contexts = read.contexts.iter().map(|of| &of.name).collect();
    let users = read.auth_infos.iter().map(|of| &of.name).collect();
    for (kind, names) in [
        ("clusters", clusters),
        ("contexts", contexts),
        ("users", users),
    ] {
        let mut all = names.iter().enumerate();
        if let Some((_, name)) = all.find(|(place, name)| names[..*place].contains(name)) {
            bail!("it has two {kind} of the name {name}");
        }
    }
    Ok(())
}

/// Returns what is wrong with a kubeconfig, without the path, which the caller adds.
fn reason(error: KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.into(),
        other => anyhow!(other.to_string()),
    }
}

/// Returns the proxy for this URL, by the environment.
///
/// # Errors
/// Returns what is wrong with the one that is set.
pub fn proxy_for(url: &str) -> Result<Option<String>, String> {
    let Some(proxy) = Environment::read().proxy(&url.parse().unwrap_or_default())? else {
        return Ok(None);
    };
    // What the library does not know it would leave out.
    match way(&proxy) {
        Some(_) => Ok(Some(proxy.to_string())),
        None => Err(format!(
            "the proxy {} is of a kind that is not supported: write http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT",
            without_credentials(&proxy)
        )),
    }
}

/// Returns the answer of the API server in plain words, and once: the sources of such an error
/// repeat its message.
pub fn plain(error: kube::Error) -> anyhow::Error {
    anyhow::Error::msg(words(&error))
}
