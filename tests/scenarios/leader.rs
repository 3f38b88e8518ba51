//! Several processes, of which one works.

mod troubles;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use swaplet_controller::frame::lease::LeaseKeeper;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::run::run_while_leading;
use swaplet_testbed::apiserver::{Effect, Rule, RuleId, Verb};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::harness::{CONCURRENCY, World, exposition, settings};
use super::line::{Line, Patches, Sent};
use super::node::Kubelet;
use super::objects::{EXIT, pod};

const NAMESPACE: &str = "swaplet";
const A: &str = "swaplet-a";
const B: &str = "swaplet-b";
const LEASE_PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/swaplet/leases/swaplet";
/// What a stop may take of the half minute that Kubernetes gives a pod.
const STOP: Duration = Duration::from_secs(15);

/// One process.
struct Process {
    line: Line,
    metrics: Metrics,
    registry: Registry,
    health: Health,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Process {
    fn start(world: &World, name: &'static str) -> Self {
        let line = Line::new(world.server.clone(), name);
        let client = || Client::new(line.clone(), "default");
        let mut registry = Registry::default();
        let (metrics, health, stop) = (
            Metrics::register(&mut registry),
            Health::default(),
            Arc::new(Notify::new()),
        );
        let keeper = LeaseKeeper::start(client(), NAMESPACE, name, health.clone());
        let asked = Arc::clone(&stop);
        let shutdown = async move { asked.notified().await };
        let (client, of_metrics, of_health) = (client(), metrics.clone(), health.clone());
        let task = tokio::spawn(async move {
            run_while_leading(
                client,
                &settings(name, CONCURRENCY),
                of_metrics,
                of_health,
                keeper,
                shutdown,
            )
            .await
            .unwrap();
        });
        Self {
            line,
            metrics,
            registry,
            health,
            stop,
            task,
        }
    }

    fn leads(&self) -> bool {
        self.metrics.leads.get() == 1
    }

    /// As SIGKILL does.
    fn kill(&self) {
        self.line.cut();
        self.task.abort();
    }

    /// As SIGTERM does.
    async fn stop(self) {
        self.stop.notify_one();
        self.task.await.unwrap();
    }
}

impl World {
    /// Two processes, of which the first leads, and a running pod `p`.
    async fn with_two() -> (Self, Process, Process) {
        let world = Self::new();
        world.create_namespace(NAMESPACE).await;
        world.run_pod(&pod("p", "Never")).await;
        let a = Process::start(&world, A);
        world.wait(1).await;
        let b = Process::start(&world, B);
        world.wait(5).await;
        assert!(a.leads() && !b.leads());
        (world, a, b)
    }

    /// Seconds until this process leads.
    async fn until_leads(&self, process: &Process) -> u64 {
        for second in 0..60 {
            if process.leads() {
                return second;
            }
            self.wait(1).await;
        }
        panic!("it does not take over")
    }

    fn holder(&self) -> String {
        let lease = self
            .server
            .peek("leases.coordination.k8s.io", NAMESPACE, "swaplet")
            .unwrap();
        lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
    }

    fn lease_fault(&self, effect: impl Into<Effect>, process: &str) -> RuleId {
        self.server
            .faults()
            .add(Rule::new(effect).resource("leases").user_agent(process))
    }

    fn patches_of_pods(&self, process: &str) -> usize {
        self.requests()
            .iter()
            .filter(|sent| {
                sent.verb == Verb::Patch && sent.resource == "pods" && sent.user_agent == process
            })
            .count()
    }

    fn writes_of_leases(&self) -> usize {
        self.requests()
            .iter()
            .filter(|sent| sent.resource == "leases" && sent.verb != Verb::Get)
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_two_works_and_the_other_says_that_it_stands_by() {
    let (world, a, b) = World::with_two().await;
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    assert_eq!(
        (world.phase("p").as_str(), world.image("p").as_str()),
        ("Succeeded", EXIT)
    );
    assert_eq!((world.patches_of_pods(A), world.patches_of_pods(B)), (1, 0));
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    assert_eq!(a.health.ready().unwrap(), "ok");
    assert!(
        b.health
            .ready()
            .unwrap()
            .starts_with("ok, standing by: swaplet-a_"),
        "{:?}",
        b.health.ready()
    );

    let (before, requests) = (world.writes_of_leases(), world.requests().len());
    world.wait(600).await;
    let renewals = world.writes_of_leases() - before;
    assert!(
        (290..=300).contains(&renewals),
        "{renewals} renewals in 600 s"
    );
    let others = world.requests()[requests..]
        .iter()
        .filter(|sent| sent.resource != "leases" && sent.verb != Verb::Watch)
        .count();
    assert_eq!(others, 0, "nothing but the lease is read and written");
}

#[tokio::test(start_paused = true)]
async fn after_a_clean_stop_the_other_takes_over_within_5_seconds() {
    let (world, a, b) = World::with_two().await;
    a.stop().await;
    let after = world.until_leads(&b).await;
    assert!(after < 5, "after {after} s");
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    assert_eq!((world.patches_of_pods(A), world.patches_of_pods(B)), (0, 1));
}

/// A process that is told to stop while the API server is slow gives the Lease back all the same,
/// wherever in a renewal the stop meets it, and the other need not wait for it to expire.
#[tokio::test(start_paused = true)]
async fn bugs_b_a_stop_in_a_slow_renewal_gives_the_lease_back() {
    let late = Duration::from_millis(2600);
    let renewals_and_all = [
        (Effect::Delay(late), usize::MAX),
        (Effect::ApplyThenDelay(late), usize::MAX),
        (Effect::ApplyThenDelay(late), 1),
        (Effect::Hang, 1),
        (Effect::ApplyThenDrop, 1),
    ];
    for (effect, times) in renewals_and_all {
        for moment in [0, 700, 1400, 2100, 2800] {
            let what = format!("{effect:?}, {times} times, after {moment} ms");
            let (world, a, b) = World::with_two().await;
            let rule = Rule::new(effect.clone()).resource("leases").user_agent(A);
            world
                .server
                .faults()
                .add(rule.verb(Verb::Patch).times(times));
            sleep(Duration::from_millis(2000 + moment)).await;
            assert!(a.leads(), "{what}");
            let start = Instant::now();
            a.stop().await;
            assert!(start.elapsed() < STOP, "{what}: {:?}", start.elapsed());
            let after = world.until_leads(&b).await;
            assert!(after <= 3, "{what}: {after} s after it had stopped");
        }
    }
}

/// What is given back is never the Lease of somebody else: also where all that a process says
/// comes after it has been taken for gone.
#[tokio::test(start_paused = true)]
async fn bugs_b_a_lease_that_somebody_else_has_taken_is_not_given_back() {
    for late in [13, 20, 30] {
        let (world, a, b) = World::with_two().await;
        a.line
            .patches(Patches::ArriveLate(Duration::from_secs(late)));
        world.wait(1).await;
        let start = Instant::now();
        a.stop().await;
        assert!(start.elapsed() < STOP, "{late}: {:?}", start.elapsed());
        world.until_leads(&b).await;
        for _ in 0..60 {
            world.wait(1).await;
            assert!(b.leads() && world.holder().starts_with(B), "{late}");
        }
    }
    let (world, a, b) = World::with_two().await;
    let fault = world.lease_fault(Effect::Hang, A);
    world.wait(16).await;
    assert!(b.leads() && !a.leads());
    world.server.faults().remove(fault);
    let line = a.line.clone();
    let before = line.sent().len();
    a.stop().await;
    world.wait(30).await;
    let writes = |sent: &Sent| sent.method == http::Method::PATCH;
    assert!(!line.sent()[before..].iter().any(writes));
    assert!(b.leads());
}

/// A standby that takes the Lease in the moment of its stop gives it back as well.
#[tokio::test(start_paused = true)]
async fn bugs_b_who_is_told_to_stop_while_it_takes_the_lease_gives_it_back() {
    let (world, a, b) = World::with_two().await;
    let rule = Rule::new(Effect::ApplyThenDelay(Duration::from_secs(2)));
    world
        .server
        .faults()
        .add(rule.resource("leases").user_agent(B).verb(Verb::Patch));
    a.kill();
    while !world.holder().starts_with(B) {
        sleep(Duration::from_millis(100)).await;
    }
    b.stop().await;
    assert_eq!(world.holder(), "");
}

/// Where nothing can be reached a stop takes no longer than that.
#[tokio::test(start_paused = true)]
async fn bugs_b_a_stop_ends_in_time_whatever_the_api_server_does() {
    for effect in [Effect::Hang, Effect::Drop, Effect::reply(503).into()] {
        let (world, a, _b) = World::with_two().await;
        world
            .server
            .faults()
            .add(Rule::new(effect.clone()).user_agent(A));
        world.wait(1).await;
        let start = Instant::now();
        a.stop().await;
        assert!(start.elapsed() < STOP, "{effect:?}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_the_other_takes_over_within_20_seconds_and_goes_on() {
    let (world, a, b) = World::with_two().await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    a.kill();
    let after = world.until_leads(&b).await;
    assert!((8..20).contains(&after), "after {after} s");
    world.start_kubelet(Kubelet {
        stop_code: 143,
        ..Kubelet::default()
    });
    world.wait(5).await;
    world.assert_ended_by_one_patch("p");
}

#[tokio::test(start_paused = true)]
async fn t9_whoever_cannot_renew_stops_before_the_other_begins() {
    for effect in [
        Effect::Hang,
        Effect::Drop,
        Effect::ApplyThenDrop,
        Effect::reply(503).into(),
    ] {
        let (world, a, b) = World::with_two().await;
        let fault = world.lease_fault(effect.clone(), A);
        let mut both = 0;
        for _ in 0..300 {
            sleep(Duration::from_millis(100)).await;
            both += usize::from(a.leads() && b.leads());
        }
        assert_eq!(both, 0, "{effect:?}: two lead at once");
        assert_eq!((a.leads(), b.leads()), (false, true), "{effect:?}");
        assert!(
            a.health
                .ready()
                .unwrap_err()
                .starts_with("cannot read or write the Lease: "),
            "{:?}",
            a.health.ready()
        );
        world.server.faults().remove(fault);
        world.wait(30).await;
        assert_eq!(
            usize::from(a.leads()) + usize::from(b.leads()),
            1,
            "{effect:?}"
        );
        world.ends("p", "main", 0).await;
        world.wait(5).await;
        assert_eq!(world.patches("p"), 1, "{effect:?}");
    }
}

/// A write that the API server answers to nobody: it could be applied after the other has read the
/// pods, and that one would not count it.
#[tokio::test(start_paused = true)]
async fn a_write_in_flight_is_given_up_before_the_other_begins() {
    let (world, a, b) = World::with_two().await;
    world.lease_fault(Effect::Hang, A);
    world.patch_fault(Effect::Hang);
    world.wait(5).await;
    assert!(a.leads());
    world.ends("p", "main", 0).await;
    let failed = r#"swaplet_writes_total{resource="pods",outcome="failed"} 1"#;
    let is_given_up = || exposition(&a.registry).lines().any(|line| line == failed);
    world.wait(1).await;
    assert!(a.leads() && !is_given_up());
    assert_eq!(world.patches_of_pods(A), 1);
    while !b.leads() {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(is_given_up());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_created_again() {
    let (world, a, b) = World::with_two().await;
    world
        .request(
            http::Method::DELETE,
            LEASE_PATH,
            "application/json",
            &serde_json::json!({}),
        )
        .await;
    world.wait(20).await;
    assert_eq!(usize::from(a.leads()) + usize::from(b.leads()), 1);
}
