//! Two processes, of which one works: it is stopped for a while as a machine stops, killed, and
//! ended.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::{Instant, sleep};

use crate::audit::swapped_in;
use crate::controller::{Why, assert_no_installation};
use crate::pods::{EXITS_143, container, pod, sidecar, spec};
use crate::process::Process;
use crate::world::{World, eventually};

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

    // It stands still while it has pods to end.
    let mut names = world.create_pods("still", 1..7).await;
    world.pod_ends(&names[0], "Succeeded").await;
    a.signal("STOP").await;
    let after = world.until_leads("b").await;
    println!("b leads {:.1} s after a stood still", after.as_secs_f32());
    world.all_succeed(&names).await;

    // It goes on beside the new leader, with what it knew.
    let more = world.create_pods("beside", 4..8).await;
    a.signal("CONT").await;
    world.all_succeed(&more).await;
    assert!(
        world.holder().await.starts_with("b_"),
        "{}",
        world.holder().await
    );
    names.extend(more);

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

    names.sort();
    assert_eq!(swapped_in(&world.namespace), names, "each once");
    c.stop().await;
    assert_eq!(
        world.holder().await,
        "",
        "whoever is stopped gives the Lease up"
    );
    world.done().await;
}
