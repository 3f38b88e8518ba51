//! Two processes, of which one works: it is stopped for a while as a machine stops, killed, and
//! ended.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::{Instant, sleep};

use crate::controller::{Why, assert_no_installation};
use crate::pods::{EXITS_143, container, pod, sidecar, spec};
use crate::process::Process;
use crate::world::{World, eventually};

/// A busy machine may hold up what is to be seen once or twice.
const TRIES: usize = 3;

impl World {
    async fn holder(&self) -> String {
        let lease = self.api::<Lease>().get_opt("swaplet").await.unwrap();
        lease
            .and_then(|lease| lease.spec?.holder_identity)
            .unwrap_or_default()
    }

    /// How long it takes until this process leads.
    async fn until_leads(&self, name: &str) -> Duration {
        let start = Instant::now();
        let prefix = format!("{name}_");
        eventually(&format!("{name} leads"), || async {
            self.holder().await.starts_with(&prefix).then_some(())
        })
        .await;
        start.elapsed()
    }

    /// Each pod was swapped, once: of a write whose sender is killed meanwhile the audit log says 504,
    /// applied or not, but the generation counts what was applied.
    async fn each_was_swapped_once(&self, names: &[String]) {
        let pods = self.pods().await;
        let generation = |pod: &Pod| pod.metadata.generation == Some(2);
        assert!(
            pods.len() == names.len() && pods.iter().all(generation),
            "{pods:#?}"
        );
    }

    /// Pods whose main containers take so many seconds; gives their names.
    async fn create_pods(&self, name: &str, seconds: std::ops::Range<u32>) -> Vec<String> {
        let mut names = Vec::new();
        for seconds in seconds {
            let policy = if seconds % 2 == 0 {
                "Never"
            } else {
                "OnFailure"
            };
            let name = format!("{name}-{seconds}");
            let main = container(self, "main", &format!("sleep {seconds}"));
            self.create_pod(pod(
                &name,
                spec(policy, vec![main, sidecar(self, "log", EXITS_143)]),
            ))
            .await;
            names.push(name);
        }
        names
    }

    async fn all_succeed(&self, names: &[String]) {
        for name in names {
            self.pod_ends(name, "Succeeded").await;
        }
    }
}

#[tokio::test]
async fn a_leader_that_stands_still_is_replaced_and_does_no_harm_when_it_goes_on() {
    let world = World::new("leader").await;
    assert_no_installation(Why::Signalled);
    let a = Process::competing(&world, "a").await;
    world.until_leads("a").await;
    let b = Process::competing(&world, "b").await;
    let mut names = Vec::new();
    let mut is_clean = false;
    for nth in 0..TRIES {
        is_clean = stands_still_and_goes_on(&world, &a, nth, &mut names).await;
        if is_clean {
            break;
        }
    }
    assert!(is_clean, "{}", world.holder().await);

    let more = world.create_pods("killed", 2..5).await;
    b.kill().await;
    let after = world.until_leads("a").await;
    println!("a leads {:.1} s after b was killed", after.as_secs_f32());
    world.all_succeed(&more).await;
    names.extend(more);

    let c = Process::competing(&world, "c").await;
    // It has to have seen the Lease, as in any installation.
    sleep(Duration::from_secs(3)).await;
    a.stop().await;
    let after = world.until_leads("c").await;
    println!("c leads {:.1} s after a was stopped", after.as_secs_f32());
    let more = world.create_pods("stopped", 1..3).await;
    world.all_succeed(&more).await;
    names.extend(more);

    world.each_was_swapped_once(&names).await;
    assert!(
        gives_the_lease_up(&world, c).await,
        "whoever is stopped gives the Lease up, and {} has it",
        world.holder().await
    );
    world.done().await;
}

/// `a` leads, stands still until `b` does, and goes on; whether `b` still leads then. Who is kept from
/// its Lease for too long by a busy machine gives way to the other one, and then `a` leads again.
async fn stands_still_and_goes_on(
    world: &World,
    a: &Process,
    nth: usize,
    names: &mut Vec<String>,
) -> bool {
    world.until_leads("a").await;
    // It stands still while it has pods to end.
    let still = world.create_pods(&format!("still-{nth}"), 1..7).await;
    world.pod_ends(&still[0], "Succeeded").await;
    a.signal("STOP").await;
    let after = world.until_leads("b").await;
    println!("b leads {:.1} s after a stood still", after.as_secs_f32());
    world.all_succeed(&still).await;
    names.extend(still);

    // It goes on beside the new leader, with what it knew.
    let beside = world.create_pods(&format!("beside-{nth}"), 4..8).await;
    a.signal("CONT").await;
    world.all_succeed(&beside).await;
    names.extend(beside);
    world.holder().await.starts_with("b_")
}

/// Whether one that is stopped does so; the API server may be too busy for one or two.
async fn gives_the_lease_up(world: &World, mut leader: Process) -> bool {
    for _ in 0..TRIES {
        leader.stop().await;
        if world.holder().await.is_empty() {
            return true;
        }
        leader = Process::competing(world, "next").await;
        world.until_leads("next").await;
    }
    false
}
