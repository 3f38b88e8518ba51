//! The installation of swaplet in a cluster: its Deployment, its flags, and whether its account has
//! the rights that make it credible.

mod started;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::client::place_of;
use crate::cli::image::HostArgs;
use crate::cli::program::table::note;
use crate::cli::rules::NodeTableArgs;
use crate::cli::run::RunArgs;
use crate::cli::run::config::{Called, Setting};
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;
use anyhow::bail;
use clap::builder::Resettable;
use clap::{Arg, ArgAction, Args as _, Command};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use swaplet_controller::frame::list::{api_in, is_page, list_with, words};
use swaplet_controller::frame::remarks::{Remarks, is_forbidden};
use swaplet_controller::terminate::public::AskPublic;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::values::whole_object::WholeObject;

/// The label of its Deployment.
const LABEL: &str = "app.kubernetes.io/name=swaplet";
/// The namespace that is searched if the user may not list all, and that comes before others.
const USUAL_NAMESPACE: &str = "swaplet";
/// The maximum number of Deployments that are read: anybody who may create one can label it, and
/// each team may have one.
const MOST: usize = 64;

/// One Deployment of swaplet.
#[derive(Clone, Debug)]
pub struct Installation {
    pub namespace: String,
    pub name: String,
    /// The name of the ServiceAccount.
    pub account: String,
    /// The label `app.kubernetes.io/version`; empty if it has none.
    pub version: String,
    pub image: String,
    /// The desired and the ready replicas.
    pub replicas: (i32, i32),
    /// The flags with which it runs; an error is the reason why they are unknown.
    pub flags: Result<Flags, String>,
}

impl Installation {
    /// Returns true unless its flags name other namespaces.
    fn works_in(&self, namespace: &str) -> bool {
        let flags = self.flags.as_ref().ok();
        flags.is_none_or(|flags| flags.works_in(namespace))
    }

    /// Returns its name in messages.
    pub fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns the namespace of its Lease and of its state.
    pub fn state_namespace(&self) -> Option<&str> {
        self.flags.as_ref().ok()?.one("state-namespace")
    }

    /// Returns the installations in this namespace, or in all.
    ///
    /// # Errors
    /// Deployments cannot be listed.
    pub async fn all(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<Self>> {
        let api: Api<WholeObject<Deployment>> = api_in(client, namespace);
        let found = list_with(&api, ListParams::default().labels(LABEL), WholeObject::read).await;
        let deployments = match found {
            // A server without Deployments has no installation.
            Err(kube::Error::Api(status)) if status.code == 404 && !is_page(&status) => Vec::new(),
            other => other?,
        };
        let mut all = Vec::new();
        for deployment in first(deployments) {
            all.extend(Self::read(client, deployment).await);
        }
        Ok(all)
    }

    async fn read(client: &Client, deployment: Deployment) -> Option<Self> {
        let meta = deployment.metadata;
        let (namespace, name) = (meta.namespace?, meta.name?);
        let spec = deployment.spec?;
        let ready = deployment.status.and_then(|status| status.ready_replicas);
        let pod = spec.template.spec?;
        let named = pod.service_account_name.clone();
        let account = named.filter(|name| !name.is_empty());
        let labels = meta.labels.unwrap_or_default();
        let version = labels.get("app.kubernetes.io/version").cloned();
        Some(Self {
            account: account.unwrap_or_else(|| "default".to_owned()),
            version: version.unwrap_or_default(),
            image: started::container(&pod)?.image.clone().unwrap_or_default(),
            replicas: (spec.replicas.unwrap_or(1), ready.unwrap_or_default()),
            flags: started::flags(client, &namespace, &name, &pod).await,
            namespace,
            name,
        })
    }

    /// Returns whether its account has this right; `None` if that cannot be checked.
    pub async fn may(&self, client: &Client, what: ResourceAttributes) -> Option<bool> {
        let namespace = &self.namespace;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!(
                    "system:serviceaccount:{namespace}:{}",
                    self.account
                )),
                groups: Some(vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ]),
                resource_attributes: Some(what),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await.ok()?;
        Some(answer.status?.allowed)
    }
}

/// Returns the Deployments that are read, the oldest first. Namespaces take turns, the usual one
/// first: so the Deployments of a tenant hide no installation.
fn first(mut deployments: Vec<Deployment>) -> Vec<Deployment> {
    let age = |found: &Deployment| found.metadata.creation_timestamp.clone();
    deployments.sort_by_key(age);
    let mut before = BTreeMap::new();
    let mut numbered = Vec::new();
    for deployment in deployments {
        let namespace = deployment.metadata.namespace.clone().unwrap_or_default();
        let is_usual = namespace == USUAL_NAMESPACE;
        let number: &mut usize = before.entry(namespace).or_default();
        numbered.push(((*number, !is_usual), deployment));
        *number += 1;
    }
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.truncate(MOST);
    let mut first: Vec<_> = numbered.into_iter().map(|(_, found)| found).collect();
    first.sort_by_key(age);
    first
}

/// The purpose for which the flags of an installation are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To explain what it would do.
    Tell,
    /// To write its images to pods: not every user who may create Deployments may choose these.
    Write,
}

/// How the user of a command can say which installation counts.
#[derive(Clone, Copy, Debug)]
pub enum Naming<'a> {
    /// By its namespace, with `--state-namespace`, which has this value.
    Namespace(Option<&'a str>),
    /// The command has flags for what it takes of an installation, these.
    Flags(&'static str),
    /// Not at all.
    Never,
}

impl<'a> Naming<'a> {
    const fn named(self) -> Option<&'a str> {
        match self {
            Self::Namespace(named) => named,
            Self::Flags(_) | Self::Never => None,
        }
    }

    /// Returns what to do where it is not known which one counts.
    fn advice(self) -> String {
        match self {
            Self::Namespace(_) => "name its namespace with --state-namespace".to_owned(),
            Self::Flags(flags) => format!("pass {flags} by hand"),
            Self::Never => "no flags of an installation count here".to_owned(),
        }
    }
}

/// The installation that works on pods of a namespace, or of all, if it is found.
#[derive(Debug, Default)]
pub struct Found {
    pub installation: Option<Installation>,
    /// The source of the flags, or why there are none.
    pub remarks: Remarks,
    /// Those that may be it, where it is not known which one is.
    pub unchosen: Vec<Installation>,
    /// True if there may be one whose flags are not known here.
    pub is_unknown: bool,
}

impl Found {
    /// Returns its flags, if they are known.
    pub fn flags(&self) -> Option<&Flags> {
        self.installation.as_ref()?.flags.as_ref().ok()
    }

    /// Returns true if there is, or may be, one whose flags are not known here.
    pub fn lacks_flags(&self) -> bool {
        (self.is_unknown || self.installation.is_some()) && self.flags().is_none()
    }

    /// Returns whether it reads SidecarPolicies; `None` if that is not known.
    pub fn reads_policies(&self) -> Option<bool> {
        match &self.installation {
            Some(_) => self.flags().map(Flags::reads_policies),
            None => (!self.is_unknown).then_some(false),
        }
    }

    /// Returns how registries are asked, by its flags, whether an image can be pulled without
    /// credentials.
    pub fn ask_public(&self) -> AskPublic {
        let hosts = self.flags().map(|flags| flags.said("plain-http").to_vec());
        let plain_http = hosts.unwrap_or_default();
        HostArgs { plain_http }.ask_public()
    }

    /// Returns the namespace of its state: the explicitly `named` one, or that of its flags.
    pub fn state_namespace(&self, named: Option<&str>) -> Option<String> {
        let its = || self.installation.as_ref()?.state_namespace();
        named.or_else(its).map(str::to_owned)
    }

    /// Finds the installation whose images a command writes to pods of this namespace, and prints
    /// the remarks. Where all `are_given` by hand, only what it says of nodes counts, unless `table`
    /// has a file of its own.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn for_images(
        client: &Client,
        naming: Naming<'_>,
        namespace: &str,
        are_given: bool,
        table: &NodeTableArgs,
    ) -> anyhow::Result<Self> {
        if are_given {
            let found = Self::find(client, naming, Some(namespace), Purpose::Tell).await?;
            if table.lacks_rows(&found) {
                found.tell();
            }
            return Ok(found);
        }
        let found = Self::find(client, naming, Some(namespace), Purpose::Write).await?;
        found.tell();
        Ok(found)
    }

    /// Prints the remarks.
    pub fn tell(&self) {
        self.remarks.lines().iter().for_each(|words| note(words));
    }

    /// Returns the image that is given, else that of the installation. `flag` is also the command
    /// that pushes such an image.
    ///
    /// # Errors
    /// Neither names one; the error says how to push it.
    pub fn image(
        &self,
        given: Option<&ImageReference>,
        flag: &str,
    ) -> anyhow::Result<ImageReference> {
        if let Some(image) = given {
            return Ok(image.clone());
        }
        let theirs = self.flags().and_then(|flags| flags.said(flag).first());
        let Some(image) = theirs else {
            let why = match (&self.installation, self.remarks.lines().is_empty()) {
                (None, false) => "no installation of swaplet counts here, as the note says",
                _ => "no installation of swaplet sets it",
            };
            bail!(
                "--{flag} is not given, and {why}: push one with `swaplet {flag} push IMAGE` and pass it with --{flag} IMAGE"
            );
        };
        note(&format!("--{flag} {image} comes from the installation"));
        Ok(ImageReference::parse(image)?)
    }

    /// Returns why it ends no sidecars of pods in this namespace, or in all; `None` if it does, or if
    /// its flags are not known.
    pub fn idleness(&self, pods_of: Option<&str>) -> Option<String> {
        let (place, flags) = (self.installation.as_ref()?.place(), self.flags()?);
        if !flags.is_on("terminate") {
            return Some(format!(
                "Deployment {place} runs with --terminate=false, so it ends no sidecars"
            ));
        }
        let other = pods_of.filter(|namespace| !flags.works_in(namespace))?;
        Some(format!(
            "Deployment {place} runs with --namespace, and without namespace {other}, so it ends no sidecars there"
        ))
    }

    /// Searches the namespace that is `named` explicitly, or all. An installation counts if its
    /// account may change pods in `pods_of`, or everywhere: only an administrator can grant that.
    pub async fn find(
        client: &Client,
        naming: Naming<'_>,
        pods_of: Option<&str>,
        purpose: Purpose,
    ) -> anyhow::Result<Self> {
        let mut found = Self::default();
        let named = naming.named();
        let all = match seen(client, named).await? {
            Ok(all) => all,
            Err(error) => {
                let so = "the flags of an installation are not known";
                let what = format!("Deployments of {}", place_of(named));
                found.remarks.unread(&what, &error, so);
                found.is_unknown = true;
                return Ok(found);
            }
        };
        let mut sure = Vec::new();
        let mut unsure = Vec::new();
        let mut others = Vec::new();
        for installation in all {
            match installation.may(client, change_pods(pods_of)).await {
                Some(true) => sure.push(installation),
                Some(false) => others.push(installation.place()),
                None => unsure.push(installation),
            }
        }
        // An account may have more rights than its installation uses.
        if let Some(namespace) = pods_of
            && sure.iter().any(|found| found.works_in(namespace))
        {
            sure.retain(|found| found.works_in(namespace));
        }
        let asked = !sure.is_empty();
        if !others.is_empty() && !asked {
            let others = others.join(", ");
            found.remarks.push(match pods_of {
                Some(namespace) => format!("the flags of {others} do not count: the account of that Deployment may not change pods in namespace {namespace}; -n with a namespace that it is for takes them"),
                None => format!("the flags of {others} do not count: the account of that Deployment may not change the pods of all namespaces; -n NAMESPACE takes those of the installation that is for it"),
            });
            // One that is for some of the namespaces may read policies.
            found.is_unknown = pods_of.is_none();
        }
        found.choose(
            if asked { sure } else { unsure },
            asked || named.is_some(),
            naming,
            purpose,
        );
        Ok(found)
    }

    fn choose(
        &mut self,
        mut all: Vec<Installation>,
        is_sure: bool,
        naming: Naming<'_>,
        purpose: Purpose,
    ) {
        let names: Vec<_> = all.iter().map(Installation::place).collect();
        let [place] = &names[..] else {
            if !names.is_empty() {
                self.is_unknown = true;
                self.remarks.push(format!(
                    "there is more than one installation ({}): {}",
                    names.join(", "),
                    naming.advice()
                ));
            }
            self.unchosen = all;
            return;
        };
        if !is_sure && purpose == Purpose::Write {
            self.is_unknown = true;
            self.remarks.push(format!(
                "the flags of Deployment {place} do not count, because it is not known whether its account may change these pods (that \
                 takes the right to create subjectaccessreviews): if it is yours, {}",
                naming.advice()
            ));
            self.unchosen = all;
            return;
        }
        let installation = all.pop();
        match installation.as_ref().map(|found| &found.flags) {
            Some(Err(problem)) => self.remarks.push(format!(
                "the flags of Deployment {place} are not known ({problem}): pass them by hand"
            )),
            _ if is_sure => {}
            _ => self.remarks.push(format!(
                "it is not known whether the account of Deployment {place} may change these pods: it counts as the installation"
            )),
        }
        self.installation = installation;
    }
}

fn change_pods(namespace: Option<&str>) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some("patch".to_owned()),
        resource: Some("pods".to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    }
}

/// Returns the installations that the caller may read, or the answer that there are none to read.
///
/// # Errors
/// The API server does not answer, and so would not answer the next requests either.
pub(super) async fn seen(
    client: &Client,
    named: Option<&str>,
) -> anyhow::Result<kube::Result<Vec<Installation>>> {
    let error = match Installation::all(client, named).await {
        Ok(all) => return Ok(Ok(all)),
        Err(error) => error,
    };
    if !is_forbidden(&error) {
        bail!("cannot list Deployments: {}", words(&error));
    }
    if named.is_none()
        && let Ok(all) = Installation::all(client, Some(USUAL_NAMESPACE)).await
        && !all.is_empty()
    {
        return Ok(Ok(all));
    }
    Ok(Err(error))
}

// The flags of `swaplet run` in an installation, parsed by the same rules as there.

/// The flags with which an installation runs.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// All flags, as `--print-config` prints them.
    pub settings: Vec<Setting>,
    /// The text of the file of `--node-classes`.
    pub node_classes: Option<String>,
}

impl Flags {
    /// Parses the arguments of a container (`run` first), its variables and its file of `--config`.
    ///
    /// # Errors
    /// What is invalid, or unknown to this version, in one line.
    fn read(
        args: &[String],
        variables: &BTreeMap<String, String>,
        config: Option<(PathBuf, String)>,
    ) -> Result<Self, String> {
        let Some(("run", args)) = args.split_first().map(|(first, rest)| (&**first, rest)) else {
            return Err("it does not run `swaplet run`".to_owned());
        };
        let given = |flag: &str| {
            let with_value = format!("--{flag}=");
            let alone = format!("--{flag}");
            args.iter()
                .any(|arg| *arg == alone || arg.starts_with(&with_value))
        };
        let run = RunArgs::augment_args(Command::new("run"));
        let by_variable = run
            .get_arguments()
            .filter(|flag| !flag.get_long().is_some_and(given))
            .filter_map(|flag| as_argument(flag, variables));
        let mut line: Vec<OsString> = vec!["swaplet".into(), "run".into()];
        line.extend(by_variable);
        line.extend(args.iter().map(OsString::from));
        let run = run.mut_args(|flag| flag.env(Resettable::Reset));
        let command = Command::new("swaplet").subcommand(run);
        let read = Called::new(command, line)
            .read_with(config)
            .map_err(|error| in_one_line(&error))?;
        Ok(Self {
            settings: read.settings,
            node_classes: None,
        })
    }

    fn setting(&self, flag: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == flag)
    }

    /// Returns the explicit values of a flag, by its long name; empty if it is not set.
    pub fn said(&self, flag: &str) -> &[String] {
        let said = self.setting(flag).filter(|setting| setting.is_said);
        said.map(|setting| &*setting.values).unwrap_or_default()
    }

    /// Returns the value of a flag that has one at most; its default if it is not set.
    pub fn one(&self, flag: &str) -> Option<&str> {
        self.setting(flag)?.values.last().map(String::as_str)
    }

    /// Returns true if a boolean flag is on.
    pub fn is_on(&self, flag: &str) -> bool {
        self.one(flag) == Some("true")
    }

    /// Returns true if it ends sidecars that policies name.
    pub fn reads_policies(&self) -> bool {
        self.is_on("sidecar-policies") && self.is_on("terminate")
    }

    /// Returns its exit images.
    pub fn exit_images(&self) -> ExitImages {
        let default = self.said("exit-image").first();
        let default = default.and_then(|image| ImageReference::parse(image).ok());
        let listed = self.said("exit-images").iter();
        let listed = listed.filter_map(|image| ImagePattern::parse(image).ok());
        ExitImages::new(default, listed.collect())
    }

    /// Returns the namespaces in which it works; empty for all.
    pub fn namespaces(&self) -> &[String] {
        self.said("namespace")
    }

    /// Returns true unless they name other namespaces.
    pub fn works_in(&self, namespace: &str) -> bool {
        let own = self.namespaces();
        own.is_empty() || own.iter().any(|own| own == namespace)
    }
}

#[cfg(test)]
impl Flags {
    /// Returns flags with these explicit values.
    pub fn of(said: &[(&str, &str)]) -> Self {
        let said: BTreeMap<_, _> = said.iter().copied().collect();
        let settings = said
            .into_iter()
            .map(|(flag, value)| Setting::of(flag, value));
        Self {
            settings: settings.collect(),
            node_classes: None,
        }
    }
}

/// Returns the value of a variable as a command line argument.
fn as_argument(flag: &Arg, variables: &BTreeMap<String, String>) -> Option<OsString> {
    let (long, env) = (flag.get_long()?, flag.get_env()?.to_str()?);
    let value = variables.get(env)?;
    match flag.get_action() {
        // The same rules by which clap reads such a variable.
        ArgAction::SetTrue => (value == "true").then(|| format!("--{long}").into()),
        _ if value.is_empty() => None,
        _ => Some(format!("--{long}={value}").into()),
    }
}

/// Returns clap's message without the usage.
fn in_one_line(error: &clap::Error) -> String {
    let words = error.render().to_string();
    let line = words.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("they cannot be read")
        .trim_start_matches("error: ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;

    fn deployment(namespace: &str, name: &str, second: i64) -> Deployment {
        Deployment {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                creation_timestamp: Some(Time(Timestamp::from_second(second).unwrap())),
                ..ObjectMeta::default()
            },
            ..Deployment::default()
        }
    }

    /// Whether policies count is not known then.
    #[test]
    fn one_of_several_installations_is_not_called_none() {
        let installation = |name: &str| Installation {
            namespace: "system".to_owned(),
            name: name.to_owned(),
            account: name.to_owned(),
            version: String::new(),
            image: String::new(),
            replicas: (1, 1),
            flags: Ok(Flags::of(&[("sidecar-policies", "false")])),
        };
        let found = |names: &[&str]| {
            let mut found = Found::default();
            let all = names.iter().map(|name| installation(name)).collect();
            found.choose(all, true, Naming::Namespace(None), Purpose::Write);
            found.reads_policies()
        };
        assert_eq!(found(&[]), Some(false));
        assert_eq!(found(&["a"]), Some(false));
        assert_eq!(found(&["a", "b"]), None);
    }

    #[test]
    fn u168_an_installation_for_other_namespaces_is_none_for_this_one() {
        let works_in = |flags: &[(&str, &str)], namespace: &str| {
            let found = Installation {
                namespace: "system".to_owned(),
                name: "a".to_owned(),
                account: "a".to_owned(),
                version: String::new(),
                image: String::new(),
                replicas: (1, 1),
                flags: Ok(Flags::of(flags)),
            };
            found.works_in(namespace)
        };
        let of_a = [("namespace", "team-a")];
        assert!(works_in(&of_a, "team-a") && works_in(&[], "team-a"));
        assert!(!works_in(&of_a, "team-b"));
    }

    #[test]
    fn older_deployments_of_tenants_hide_no_installation() {
        let names = |all| {
            let names = first(all)
                .into_iter()
                .filter_map(|found| found.metadata.name);
            names.collect::<Vec<_>>()
        };
        let mut all = vec![deployment("system", "real", 100)];
        all.extend((0..=64).map(|nth| deployment("tenant", "old", nth)));
        let read = names(all);
        assert_eq!((read.len(), read.last()), (MOST, Some(&"real".to_owned())));
        // A tenant may have many namespaces.
        let mut all = vec![deployment(USUAL_NAMESPACE, "real", 100)];
        all.extend((0..=64).map(|nth| deployment(&format!("tenant-{nth}"), "old", nth)));
        let read = names(all);
        assert_eq!((read.len(), read.last()), (MOST, Some(&"real".to_owned())));
    }
}

#[cfg(test)]
mod flags_tests {
    use super::*;

    fn read(args: &[&str], variables: &[(&str, &str)], config: &str) -> Result<Flags, String> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let config = (!config.is_empty()).then(|| ("config.yaml".into(), config.to_owned()));
        Flags::read(&args, &variables, config)
    }

    #[test]
    fn flags_outrank_variables_and_these_the_file() {
        let flags = read(
            &["run", "--finish=never", "--leader-elect"],
            &[
                ("SWAPLET_STATE_NAMESPACE", "system"),
                ("SWAPLET_FINISH", "allowed"),
                ("SWAPLET_EXIT_IMAGE", "registry.example/exit:v2"),
                ("RUST_LOG", "info"),
            ],
            "exit-image: registry.example/exit:v1\nnamespace: [a, b]\n",
        )
        .unwrap();
        assert_eq!(flags.one("finish"), Some("never"));
        assert_eq!(flags.said("exit-image"), ["registry.example/exit:v2"]);
        assert_eq!(flags.namespaces(), ["a", "b"]);
        assert_eq!(flags.one("state-namespace"), Some("system"));
        assert!(flags.is_on("leader-elect") && flags.is_on("terminate") && !flags.is_on("warm"));
        assert!(flags.said("terminate").is_empty(), "a default");
    }

    #[test]
    fn what_is_unknown_here_is_named() {
        let words = read(&["run", "--of-tomorrow"], &[], "").unwrap_err();
        assert!(words.contains("--of-tomorrow"), "{words}");
        let words = read(&["run"], &[], "of-tomorrow: 1\n").unwrap_err();
        assert!(words.contains("there is no key of-tomorrow"), "{words}");
        assert!(read(&["warm", "x"], &[], "").is_err());
    }
}
