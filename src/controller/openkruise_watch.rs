//! Looks for OpenKruise on the cluster: whether it is installed, where its daemon runs, what becomes of requests to it, and whether
//! its SidecarTerminator is on.
//!
//! Without OpenKruise this costs one request in five minutes; beside it two watches, and three requests a minute where it matters
//! who ends sidecars.

use std::collections::HashSet;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

use super::openkruise::News;
use super::run::Settings;
use super::watch::{Event, watch, watch_selected};
use crate::decide::openkruise::{Coexist, Seen, Signals, Terminator};
use crate::objects::daemon_pod::{DaemonPod, DaemonPodWire, LABEL, NAMESPACE};
use crate::objects::recreate_request::{GROUP, PLURAL, RecreateRequest, RecreateRequestWire, VERSION};

/// How often is asked for OpenKruise where it is not installed: installing it is a day's event.
const NOT_INSTALLED: Duration = Duration::from_secs(300);
/// How long after a question that was not answered it is asked again.
const NOT_ANSWERED: Duration = Duration::from_secs(15);
/// How often is asked whether its SidecarTerminator is on: switching it is a rollout of its manager, which takes as long.
const TERMINATOR: Duration = Duration::from_secs(60);
/// For all answers of one look.
const ANSWER: Duration = Duration::from_secs(30);
/// News between this task and the loop.
const BUFFER: usize = 256;
/// The pods of its manager (its own manifest and its Helm chart agree).
const MANAGER_LABEL: &str = "control-plane=controller-manager";
/// Its Lease (flag `--leader-election-id`).
const LEASE: &str = "kruise-manager";
/// Its webhooks.
const WEBHOOKS: &str = "kruise-mutating-webhook-configuration";

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Requests of this namespace only; of all where it is `None`.
    pub namespace: Option<String>,
    /// Whether it matters that its SidecarTerminator is on.
    pub terminator: bool,
    /// Whether anything of it matters.
    pub wanted: bool,
}

impl Scope {
    /// What a controller looks for.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let Settings { namespace, rules, .. } = settings;
        Self { namespace: namespace.clone(), terminator: rules.coexist != Coexist::Own, wanted: rules.looks_for_openkruise() }
    }
}

/// Starts looking. The stream ends only when the receiver is dropped.
#[must_use]
pub fn observe(client: Client, scope: Scope) -> mpsc::Receiver<News> {
    let (news, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(Observer { client, scope, news }.run());
    receiver
}

struct Observer {
    client: Client,
    scope: Scope,
    news: mpsc::Sender<News>,
}

/// Nobody listens any more.
struct Closed;

impl Observer {
    async fn run(self) {
        if !self.scope.wanted {
            self.news.closed().await;
        }
        while self.look().await.is_ok() {}
    }

    async fn look(&self) -> Result<(), Closed> {
        let pause = match self.is_installed().await {
            Ok(true) => return self.beside().await,
            Ok(false) => {
                self.tell_all(vec![News::Terminator(Terminator::Absent), News::Seen]).await?;
                NOT_INSTALLED
            }
            Err(error) => {
                tracing::warn!(error, "cannot ask whether OpenKruise is installed; trying again");
                NOT_ANSWERED
            }
        };
        tokio::select! {
            () = sleep(pause) => Ok(()),
            () = self.news.closed() => Err(Closed),
        }
    }

    /// Whether the API server knows requests to the daemon. Whoever may do anything at all may ask this.
    async fn is_installed(&self) -> Result<bool, String> {
        let group = format!("{GROUP}/{VERSION}");
        match timeout(ANSWER, self.client.list_api_group_resources(&group)).await {
            Ok(Ok(list)) => Ok(list.resources.iter().any(|resource| resource.name == PLURAL)),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 403 | 404) => Ok(false),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    /// Tells what happens until OpenKruise is gone.
    async fn beside(&self) -> Result<(), Closed> {
        let requests: Api<RecreateRequestWire> = match &self.scope.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let daemons: Api<DaemonPodWire> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut requests = Followed::new(watch(requests, ""), |uid| News::RequestGone(uid));
        let mut daemons = Followed::new(watch_selected(daemons, ListParams::default().labels(LABEL)), |name| News::DaemonGone(name));
        let mut looks = looks();
        let mut renewed = None;
        let mut unknown = self.scope.terminator;
        let mut told = false;
        // A missing right is met again and again.
        let mut troubles = HashSet::new();
        loop {
            let news = tokio::select! {
                event = requests.next() => requests.read(event?, read_request),
                event = daemons.next() => daemons.read(event?, read_daemon),
                _ = looks.tick(), if self.scope.terminator => match self.terminator(&mut renewed).await {
                    Ok(terminator) => {
                        unknown = false;
                        Ok(vec![News::Terminator(terminator)])
                    }
                    Err(trouble) => {
                        looks.reset_after(NOT_ANSWERED);
                        Err(trouble)
                    }
                },
            };
            match news {
                Ok(news) => self.tell_all(news).await?,
                Err(trouble) if self.is_installed().await == Ok(false) => {
                    tracing::info!(trouble, "OpenKruise is gone");
                    return self.tell_all(requests.all_gone().chain(daemons.all_gone()).collect()).await;
                }
                Err(trouble) if troubles.insert(trouble.clone()) => tracing::warn!(trouble, "cannot look at OpenKruise; trying again"),
                Err(trouble) => tracing::debug!(trouble, "cannot look at OpenKruise; trying again"),
            }
            if !told && !unknown && requests.settled && daemons.settled {
                told = true;
                self.tell(News::Seen).await?;
            }
        }
    }

    /// `renewed` is the version of the Lease at the last look.
    async fn terminator(&self, renewed: &mut Option<String>) -> Result<Terminator, String> {
        match timeout(ANSWER, self.signals(renewed)).await {
            Ok(Ok(signals)) => Ok(signals.terminator()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn signals(&self, renewed: &mut Option<String>) -> kube::Result<Signals> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let webhooks: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let managers = ListParams::default().labels(MANAGER_LABEL);
        Ok(Signals {
            command_lines: match seen(deployments.list(&managers).await)? {
                Seen::Found(list) if list.items.is_empty() => Seen::Missing,
                managers => managers.map(|list| list.items.into_iter().flat_map(command_lines).collect()),
            },
            webhooks: seen(webhooks.get_metadata(WEBHOOKS).await.map(drop))?,
            lease: seen(leases.get_metadata(LEASE).await)?.map(|lease| {
                let before = std::mem::replace(renewed, lease.metadata.resource_version);
                before.is_some() && before != *renewed
            }),
        })
    }

    async fn tell_all(&self, news: Vec<News>) -> Result<(), Closed> {
        for one in news {
            self.tell(one).await?;
        }
        Ok(())
    }

    async fn tell(&self, news: News) -> Result<(), Closed> {
        self.news.send(news).await.map_err(|_| Closed)
    }
}

fn looks() -> Interval {
    let mut looks = interval(TERMINATOR);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

fn seen<T>(answer: kube::Result<T>) -> kube::Result<Seen<T>> {
    match answer {
        Ok(found) => Ok(Seen::Found(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Seen::Missing),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Seen::Hidden),
        Err(error) => Err(error),
    }
}

fn command_lines(deployment: Deployment) -> Vec<String> {
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let containers = pod.into_iter().flat_map(|pod| pod.containers);
    containers.flat_map(|container| container.command.into_iter().chain(container.args).flatten()).collect()
}

fn read_request(request: RecreateRequestWire) -> Option<(Box<str>, News)> {
    let request: RecreateRequest = request.read()?;
    Some((request.pod_uid.clone(), News::Request(request)))
}

fn read_daemon(pod: DaemonPodWire) -> Option<(Box<str>, News)> {
    let pod: DaemonPod = pod.read()?;
    Some((pod.name.clone(), News::Daemon(pod)))
}

/// A watch, and the keys of what it has shown: what a list no longer names is gone.
struct Followed<K> {
    events: mpsc::Receiver<Event<K>>,
    gone: fn(Box<str>) -> News,
    /// Whether the first list is complete; or cannot be had, and is not waited for.
    settled: bool,
    known: HashSet<Box<str>>,
    listed: HashSet<Box<str>>,
}

impl<K: Debug> Followed<K> {
    fn new(events: mpsc::Receiver<Event<K>>, gone: fn(Box<str>) -> News) -> Self {
        Self { events, gone, settled: false, known: HashSet::new(), listed: HashSet::new() }
    }

    async fn next(&mut self) -> Result<Event<K>, Closed> {
        self.events.recv().await.ok_or(Closed)
    }

    /// What an event says; its trouble is an error.
    fn read(&mut self, event: Event<K>, read: impl Fn(K) -> Option<(Box<str>, News)>) -> Result<Vec<News>, String> {
        self.settled |= matches!(event, Event::ListEnd | Event::Trouble(_));
        Ok(match event {
            Event::ListStart => {
                self.listed.clear();
                Vec::new()
            }
            Event::Listed(object) => self.is_there(read(object), true),
            Event::Applied(object) => self.is_there(read(object), false),
            Event::ListEnd => {
                let listed = std::mem::take(&mut self.listed);
                let gone: Vec<_> = self.known.difference(&listed).cloned().collect();
                self.known = listed;
                gone.into_iter().map(self.gone).collect()
            }
            Event::Deleted(object) => {
                let gone = read(object).map(|(key, _)| key).filter(|key| self.known.remove(key));
                gone.into_iter().map(self.gone).collect()
            }
            Event::Trouble(trouble) => return Err(trouble),
        })
    }

    fn is_there(&mut self, read: Option<(Box<str>, News)>, listed: bool) -> Vec<News> {
        let Some((key, news)) = read else { return Vec::new() };
        if listed {
            self.listed.insert(key.clone());
        }
        self.known.insert(key);
        vec![news]
    }

    fn all_gone(&mut self) -> impl Iterator<Item = News> + use<K> {
        let gone = self.gone;
        std::mem::take(&mut self.known).into_iter().map(gone)
    }
}
