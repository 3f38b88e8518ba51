//! The state of OpenKruise on the cluster: where its daemon runs, the requests to it, and whether
//! its SidecarTerminator is on. [`Known`] holds the state; [`observe`] watches the cluster.

mod beside;

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::time::Duration;

use self::beside::Beside;
use super::rules::Rules;
use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::serve::rights::Right;
use crate::frame::store::Store;
use crate::frame::watch::{BUFFER, Event};
use crate::frame::writer::is_missing_right;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Resource};
use swaplet_core::cluster::daemon_pod::{DaemonPod, NAMESPACE};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::recreate_request::{PLURAL, RecreateRequest};
use swaplet_core::terminate::openkruise::{
    Coexist, Daemon, Daemons, OpenKruise, Seen, Signals, Terminator,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// An event about OpenKruise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A check is complete: the events before this one report all that exists.
    Seen,
    /// The state of its SidecarTerminator.
    Terminator(Terminator),
    /// A pod of its daemon was added or has changed.
    Daemon(DaemonPod),
    /// The pod of its daemon with this name was deleted.
    DaemonGone(Box<str>),
    /// A request to its daemon was added or has changed; with its key.
    Request(Box<str>, RecreateRequest),
    /// The request with this key was deleted.
    RequestGone(Box<str>),
    /// A watch or check has failed for this reason; it is retried automatically.
    Trouble(String),
    /// This right is missing, with the error of the API server.
    Lacks(Right, String),
    /// This right is not missing.
    Has(Right),
}

/// The pods to reconcile after an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerns {
    /// No pod at all.
    Nobody,
    /// The pod with this uid.
    Pod(Box<str>),
    /// The pods on this node.
    Node(Box<str>),
    /// Every pod that is kept.
    Everybody,
}

/// The known state of OpenKruise.
#[derive(Debug)]
pub struct Known {
    seen: bool,
    coexist: Coexist,
    terminator: Terminator,
    daemons: Daemons,
    /// True while the pods of its daemon cannot be watched: any node may have one.
    are_daemons_hidden: bool,
    /// The requests to its daemon, by namespace and uid of the pod.
    requests: HashMap<Box<str>, RecreateRequest>,
}

/// Returns the key of the request for a pod: its namespace and the uid of the pod. The uid comes
/// from the name of the request, which anybody may choose in a namespace of their own.
fn request_key(namespace: &str, pod_uid: &str) -> Box<str> {
    format!("{namespace}/{pod_uid}").into()
}

fn request_for<'a>(
    requests: &'a HashMap<Box<str>, RecreateRequest>,
    pod: &Pod,
) -> Option<&'a RecreateRequest> {
    // Where OpenKruise is not asked there are none, and no key is made for each event of a pod.
    if requests.is_empty() {
        return None;
    }
    requests.get(&request_key(&pod.namespace, &pod.uid))
}

/// Returns true if the rules depend on OpenKruise at all.
fn matters(rules: &Rules) -> bool {
    rules.coexist != Coexist::Own || rules.allowed.recreate
}

impl Known {
    /// Returns the state before the first check of the cluster.
    pub fn new(rules: &Rules) -> Self {
        Self {
            seen: !matters(rules),
            coexist: rules.coexist,
            terminator: Terminator::Absent,
            daemons: Daemons::default(),
            are_daemons_hidden: false,
            requests: HashMap::new(),
        }
    }

    /// Requires another check before anything is written: some loop has to know where the daemon
    /// runs, even if nothing else matters.
    pub const fn require_sight(&mut self) {
        self.seen = false;
    }

    /// Returns true if a pod of its daemon is on the node, or may be, Ready or not.
    pub fn has_daemon(&self, node: &str) -> bool {
        self.daemon(node) != Daemon::None
    }

    /// Like [`has_daemon`](Self::has_daemon), but `None` before the first check, and where none can
    /// be seen. An empty `node` means any node.
    pub fn has_daemon_if_seen(&self, node: &str) -> Option<bool> {
        (self.seen && !self.are_daemons_hidden).then(|| {
            if node.is_empty() {
                !self.daemons.are_none()
            } else {
                self.has_daemon(node)
            }
        })
    }

    /// Returns the daemon of a node. One that may be there counts as not Ready: pods are left to
    /// it, and it is not used.
    fn daemon(&self, node: &str) -> Daemon {
        match self.daemons.on(node) {
            Daemon::None if self.are_daemons_hidden => Daemon::NotReady,
            seen => seen,
        }
    }

    /// Returns what decisions about a pod have to know of OpenKruise.
    pub fn around(&self, pod: &Pod) -> OpenKruise<'_> {
        OpenKruise {
            seen: self.seen,
            coexist: self.coexist,
            terminator: self.terminator,
            daemon: self.daemon(&pod.node),
            request: request_for(&self.requests, pod),
        }
    }

    /// Returns `class`, or [`NodeClass::Daemon`] for a kubelet beside which the daemon is Ready.
    pub fn class(&self, pod: &Pod, class: NodeClass) -> NodeClass {
        if class == NodeClass::Kubelet && self.daemons.on(&pod.node) == Daemon::Ready {
            NodeClass::Daemon
        } else {
            class
        }
    }

    /// Applies an event, and returns the pods to reconcile.
    pub fn handle(&mut self, news: News) -> Concerns {
        match news {
            News::Seen => {
                self.seen = true;
                Concerns::Everybody
            }
            News::Lacks(Right::WatchDaemons, _) | News::Has(Right::WatchDaemons) => {
                let before = self.are_daemons_hidden;
                self.are_daemons_hidden = matches!(news, News::Lacks(..));
                if self.are_daemons_hidden == before {
                    Concerns::Nobody
                } else {
                    Concerns::Everybody
                }
            }
            News::Trouble(_) | News::Lacks(..) | News::Has(_) => Concerns::Nobody,
            News::Terminator(terminator) if terminator == self.terminator => Concerns::Nobody,
            News::Terminator(terminator) => {
                self.terminator = terminator;
                Concerns::Everybody
            }
            News::Daemon(pod) => self
                .daemons
                .apply(pod)
                .map_or(Concerns::Nobody, Concerns::Node),
            News::DaemonGone(name) => self
                .daemons
                .remove(&name)
                .map_or(Concerns::Nobody, Concerns::Node),
            News::Request(key, request) => {
                let uid = request.pod_uid.clone();
                self.requests.insert(key, request);
                Concerns::Pod(uid)
            }
            News::RequestGone(key) => match self.requests.remove(&key) {
                Some(request) => Concerns::Pod(request.pod_uid),
                None => Concerns::Nobody,
            },
        }
    }
}

// The search for OpenKruise on the cluster.
//
// Without OpenKruise it costs one request in five minutes; with it two watches, and four requests
// a minute where it matters who ends sidecars. Where only swaplet's CRDs are applied, forbidden
// watches are tried once, and a manager is searched for once. After that it costs the check for
// OpenKruise, which other loops need too, and the watches that are allowed.

/// The interval of checks for OpenKruise where it is not installed, which changes rarely.
const NOT_INSTALLED: Duration = Duration::from_secs(300);
/// The pause after a check that was not answered.
const NOT_ANSWERED: Duration = Duration::from_secs(15);

/// The scope of the search.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The namespaces in which requests are watched.
    pub namespaces: Namespaces,
    /// True if it matters whether its SidecarTerminator is on.
    pub terminator: bool,
    /// True if anything of OpenKruise matters.
    pub wanted: bool,
}

impl Scope {
    /// Returns the scope of a controller with these rules; `restarts` alone makes it search.
    pub fn of(namespaces: Namespaces, rules: &Rules, restarts: bool) -> Self {
        Self {
            namespaces,
            terminator: rules.coexist != Coexist::Own,
            wanted: matters(rules) || restarts,
        }
    }
}

/// Starts the search. The stream ends only if the receiver is dropped, or a watch has died.
pub fn observe(discovery: Discovery, scope: Scope) -> mpsc::Receiver<News> {
    let (news, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(
        Observer {
            discovery,
            scope,
            news,
        }
        .run(),
    );
    receiver
}

struct Observer {
    discovery: Discovery,
    scope: Scope,
    news: mpsc::Sender<News>,
}

/// The receiver was dropped, or a watch has died.
struct Closed;

impl Observer {
    async fn run(self) {
        if !self.scope.wanted {
            self.news.closed().await;
        }
        while self.observe().await.is_ok() {}
    }

    async fn observe(&self) -> Result<(), Closed> {
        let pause = match self.discovery.resources().await {
            // Where the query is forbidden, it may be there.
            Ok(resources) if !resources.lack(PLURAL) => return self.beside().await,
            Ok(_) => {
                self.report(vec![News::Terminator(Terminator::Absent), News::Seen])
                    .await?;
                NOT_INSTALLED
            }
            Err(error) => {
                self.report(vec![News::Trouble(format!(
                    "cannot check whether it is installed: {error}"
                ))])
                .await?;
                NOT_ANSWERED
            }
        };
        tokio::select! {
            () = sleep(pause) => Ok(()),
            () = self.news.closed() => Err(Closed),
        }
    }

    /// Sends events until OpenKruise is gone.
    async fn beside(&self) -> Result<(), Closed> {
        let mut beside = Beside::new(&self.discovery, &self.scope);
        loop {
            let news = match beside.next().await {
                Next::News(news) => news,
                Next::Died => return Err(Closed),
                Next::Trouble(trouble) => match self.discovery.resources_now().await {
                    Ok(resources) if resources.lack(PLURAL) => {
                        return self.report(beside.all_gone()).await;
                    }
                    _ => beside.trouble(trouble).into_iter().collect(),
                },
                Next::Forbidden => match self.discovery.resources().await {
                    Ok(resources) if resources.lack(PLURAL) => {
                        return self.report(beside.all_gone()).await;
                    }
                    Ok(resources) => beside.judge(resources.are_openkruises()),
                    Err(error) => beside
                        .trouble(format!("cannot check whether it is installed: {error}"))
                        .into_iter()
                        .collect(),
                },
            };
            self.report(news).await?;
            if beside.settles() {
                self.report(vec![News::Seen]).await?;
            }
        }
    }

    async fn report(&self, news: Vec<News>) -> Result<(), Closed> {
        for one in news {
            self.news.send(one).await.map_err(|_| Closed)?;
        }
        Ok(())
    }
}

// A watch that reports its objects one by one, those that exist and those that are gone.

/// The result of a watch or a check.
pub(crate) enum Next {
    /// These events are to be reported.
    News(Vec<News>),
    /// A failure, which is retried automatically.
    Trouble(String),
    /// A right to watch something is missing. What that means depends on whether OpenKruise itself
    /// is installed.
    Forbidden,
    /// The watch has ended, which it never does by itself.
    Died,
}

/// How long the first list of daemons may fail until they count as hidden.
const LISTED_WITHIN: Duration = Duration::from_secs(30);

/// A watch, and the keys of the objects that it has shown.
pub(crate) struct Followed<K> {
    open: Box<dyn Fn() -> mpsc::Receiver<Event<K>> + Send + Sync>,
    /// `None` while the watch is forbidden and OpenKruise itself is not installed.
    events: Option<mpsc::Receiver<Event<K>>>,
    right: Right,
    /// Returns the key of an object and its event; `None` skips the object.
    read: fn(K) -> Option<(Box<str>, News)>,
    /// Returns the event that the object of this key is gone.
    gone: fn(Box<str>) -> News,
    known: Store<Box<str>>,
    /// The reason why the watch, or a part of it, is forbidden.
    forbidden: Option<String>,
    /// Set once the first list is complete, or has failed; that of daemons for long: then they count
    /// as hidden, for where none is, pods are taken from OpenKruise.
    pub settled: bool,
    opened: Instant,
}

impl<K: Resource> Followed<K> {
    /// Starts the watch with `open`, which needs the right.
    pub fn new(
        open: impl Fn() -> mpsc::Receiver<Event<K>> + Send + Sync + 'static,
        right: Right,
        read: fn(K) -> Option<(Box<str>, News)>,
        gone: fn(Box<str>) -> News,
    ) -> Self {
        let events = Some(open());
        Self {
            open: Box::new(open),
            events,
            right,
            read,
            gone,
            known: Store::default(),
            forbidden: None,
            settled: false,
            opened: Instant::now(),
        }
    }

    /// Waits for the next result, forever while the watch is given up.
    pub async fn next(&mut self) -> Next {
        let Some(events) = &mut self.events else {
            return pending().await;
        };
        match events.recv().await {
            Some(event) => self.take(event),
            None => Next::Died,
        }
    }

    fn take(&mut self, event: Event<K>) -> Next {
        // Whatever keeps the daemons from being listed, it may last: until then they may be anywhere.
        let is_waited_for = self.right == Right::WatchDaemons && !self.settled;
        let is_late = is_waited_for && self.opened.elapsed() >= LISTED_WITHIN;
        self.settled |= matches!(event, Event::ListEnd)
            || !is_waited_for && matches!(event, Event::Trouble(_) | Event::Forbidden(_));
        let now = Moment::after_start(self.opened.elapsed());
        Next::News(match event {
            Event::Trouble(trouble) if !is_missing_right(&trouble) && !is_late => {
                return Next::Trouble(trouble);
            }
            Event::Hidden(why) => {
                let hidden = Event::<K>::Hidden(why.clone());
                drop(self.known.observe(hidden, now, |_| None));
                return self.forbid(why);
            }
            Event::Trouble(why) | Event::Forbidden(why) => return self.forbid(why),
            Event::Current(_) if self.known.hidden().is_some() => Vec::new(),
            Event::Current(_) => {
                self.forbidden = None;
                vec![News::Has(self.right)]
            }
            event => {
                let (read, mut put) = (self.read, None);
                let changes = self.known.observe(event, now, |object| {
                    let (key, news) = read(object)?;
                    put = Some(news);
                    Some(key)
                });
                let gone = changes.gone.into_iter();
                let gone = gone.map(|(_, key, ())| (self.gone)(key));
                gone.chain(put).collect()
            }
        })
    }

    fn forbid(&mut self, why: String) -> Next {
        self.forbidden = Some(why);
        Next::Forbidden
    }

    /// Handles a forbidden watch. Where OpenKruise itself is not installed there is nothing to
    /// watch, so the watch is given up until it comes.
    pub fn judge(&mut self, openkruise_is_there: bool) -> Vec<News> {
        self.settled |= self.forbidden.is_some();
        match &self.forbidden {
            None => Vec::new(),
            Some(_) if openkruise_is_there && self.rests() => {
                self.events = Some((self.open)());
                Vec::new()
            }
            Some(why) if openkruise_is_there => vec![News::Lacks(self.right, why.clone())],
            Some(_) => {
                self.events = None;
                self.all_gone()
            }
        }
    }

    /// Returns true while the watch is given up.
    pub const fn rests(&self) -> bool {
        self.events.is_none()
    }

    /// Returns the events that every object is gone, and that no right is missing.
    pub fn all_gone(&mut self) -> Vec<News> {
        let known = std::mem::take(&mut self.known);
        let gone = known.iter().map(|(_, key, ())| (self.gone)(key.clone()));
        gone.chain([News::Has(self.right)]).collect()
    }
}

// The checks of OpenKruise's manager: whether it is there, and with which feature gates.

/// The deadline of all requests of one check.
const ANSWER: Duration = Duration::from_secs(30);
/// The label of its Deployment (its own manifest and its Helm chart agree).
const LABEL: &str = "control-plane=controller-manager";
/// The most Deployments with that label that are read.
const MOST: u32 = 10;
/// The name of its Lease (flag `--leader-election-id`).
const LEASE: &str = "kruise-manager";
/// The name of its webhook configuration.
const WEBHOOKS: &str = "kruise-mutating-webhook-configuration";
/// The rights that the checks need.
const RIGHTS: [Right; 3] = [
    Right::ListManagers,
    Right::ReadWebhooks,
    Right::ReadLeaseOfManager,
];

/// The manager, as it was last observed.
pub(crate) struct Manager {
    discovery: Discovery,
    deployments: Api<Deployment>,
    webhooks: Api<MutatingWebhookConfiguration>,
    leases: Api<Lease>,
    /// The version of the Lease at the last check.
    renewed: Option<String>,
    /// True if the last check found neither its webhooks nor its Lease.
    found_none: bool,
    /// The rights that were missing at the last check, each with the error.
    forbidden: BTreeMap<Right, String>,
}

impl Manager {
    pub fn new(discovery: &Discovery) -> Self {
        let client = discovery.client();
        Self {
            discovery: discovery.clone(),
            deployments: Api::namespaced(client.clone(), NAMESPACE),
            webhooks: Api::all(client.clone()),
            leases: Api::namespaced(client.clone(), NAMESPACE),
            renewed: None,
            found_none: false,
            forbidden: BTreeMap::new(),
        }
    }

    /// Checks whether its SidecarTerminator is on, and which rights are missing for that. Returns
    /// an error if the API server does not answer.
    pub async fn check(&mut self) -> Result<Vec<News>, String> {
        let other_kinds = self.discovery.resources().await?.are_openkruises();
        // Where only swaplet's CRDs are, and no manager was found, none comes before its own CRDs
        // do.
        if !other_kinds && self.found_none {
            return Ok(Self::gone());
        }
        let signals = self.signals(other_kinds).await?;
        self.found_none = !matches!(
            (&signals.webhooks, &signals.lease),
            (Seen::Found(()), _) | (_, Seen::Found(_))
        );
        Ok(self
            .rights(other_kinds)
            .into_iter()
            .chain([News::Terminator(signals.terminator())])
            .collect())
    }

    /// Returns what the manager shows where its CRDs are served; `None` if only another check can
    /// show whether its Lease is renewed.
    pub async fn signals_of_its_crds(&mut self) -> Result<Option<Signals>, String> {
        let is_first = self.renewed.is_none();
        let signals = self.signals(true).await?;
        let is_unclear = is_first
            && matches!(signals.lease, Seen::Found(_))
            && signals.webhooks != Seen::Found(());
        Ok((!is_unclear).then_some(signals))
    }

    /// Returns the events of an absent manager: no right is missing for it.
    pub fn gone() -> Vec<News> {
        RIGHTS
            .map(News::Has)
            .into_iter()
            .chain([News::Terminator(Terminator::Absent)])
            .collect()
    }

    async fn signals(&mut self, other_kinds: bool) -> Result<Signals, String> {
        let signals = timeout(ANSWER, self.read_signals(other_kinds)).await;
        let signals = signals.map_err(|_| "no answer in time".to_owned())?;
        signals.map_err(|error| error.to_string())
    }

    async fn read_signals(&mut self, other_kinds: bool) -> kube::Result<Signals> {
        // One page is enough: there is one manager.
        let managers = self
            .deployments
            .list(&ListParams::default().labels(LABEL).limit(MOST))
            .await;
        let webhooks = self.webhooks.get_metadata(WEBHOOKS).await;
        let lease = self.leases.get_metadata(LEASE).await;
        Ok(Signals {
            command_lines: match self.seen(Right::ListManagers, managers)? {
                Seen::Found(list) if list.items.is_empty() => Seen::Missing,
                managers => {
                    managers.map(|list| list.items.into_iter().flat_map(command_lines).collect())
                }
            },
            webhooks: self.seen(Right::ReadWebhooks, webhooks)?.map(drop),
            lease: self
                .seen(Right::ReadLeaseOfManager, lease)?
                .map(|lease| self.is_renewed(lease.metadata.resource_version)),
            other_kinds,
        })
    }

    fn rights(&self, other_kinds: bool) -> Vec<News> {
        let right = |right| match self.forbidden.get(&right) {
            Some(why) if other_kinds => News::Lacks(right, why.clone()),
            _ => News::Has(right),
        };
        RIGHTS.map(right).into()
    }

    fn seen<T>(&mut self, right: Right, answer: kube::Result<T>) -> kube::Result<Seen<T>> {
        self.forbidden.remove(&right);
        match answer {
            Ok(found) => Ok(Seen::Found(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Seen::Missing),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                self.forbidden.insert(right, status.message.clone());
                Ok(Seen::Hidden)
            }
            Err(error) => Err(error),
        }
    }

    fn is_renewed(&mut self, version: Option<String>) -> bool {
        let before = std::mem::replace(&mut self.renewed, version);
        before.is_some() && before != self.renewed
    }
}

fn command_lines(deployment: Deployment) -> Vec<String> {
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let containers = pod.into_iter().flat_map(|pod| pod.containers);
    containers
        .flat_map(|container| {
            container
                .command
                .into_iter()
                .chain(container.args)
                .flatten()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::cluster::exit_images::ExitImages;
    use swaplet_core::cluster::node_table::NodeTable;
    use swaplet_core::objects::pod::wire::PodWire;
    use swaplet_core::objects::recreate_request::RecreateRequestWire;
    use swaplet_core::terminate::methods::AllowedMethods;

    use super::beside::read_request;
    use super::*;

    fn request(namespace: &str) -> (Box<str>, News) {
        let name = RecreateRequest::name_for("u1");
        let request = json!({"metadata": {"name": name, "namespace": namespace}});
        let request: RecreateRequestWire = serde_json::from_value(request).unwrap();
        read_request(request).unwrap()
    }

    #[test]
    fn a_request_of_another_namespace_is_not_that_of_the_pod() {
        let mut known = Known::new(&Rules {
            exit_images: ExitImages::default(),
            allowed: AllowedMethods::default(),
            node_table: NodeTable::built_in(),
            coexist: Coexist::Auto,
        });
        let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "u1"}});
        let pod = serde_json::from_value::<PodWire>(pod).unwrap().read();
        let pod = pod.unwrap();
        let (of_others, news) = request("others");
        known.handle(news);
        assert_eq!(known.around(&pod).request, None);
        let (own, news) = request("default");
        assert_eq!(known.handle(news), Concerns::Pod("u1".into()));
        known.handle(News::RequestGone(of_others));
        assert!(known.around(&pod).request.is_some());
        known.handle(News::RequestGone(own));
        assert_eq!(known.around(&pod).request, None);
    }
}
