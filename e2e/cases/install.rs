//! swaplet as an operator has it: its own image, installed by Helm, two replicas in pods with
//! restricted rights.

mod chart;
mod config;
mod flow;
mod installation;
pub mod installed;
mod parts;
mod release;

pub use self::chart::{VALUES, helm, rendered};
pub use self::installation::{Installation, pull};

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt as _;
use swaplet_controller::frame::clock::time_of_day;
use tokio::time::{Instant, sleep};

use crate::audit::{Written, asked_by, written_by};
use crate::pods::{EXITS_143, container, job, sidecar, spec};
use crate::restart::{Restarts, succeeded};
use crate::restart_parking::{forced, image, park_and_die, was_parked_once, without_a_name};
use crate::witness::Witness;
use crate::world::World;

/// So many Jobs of a stream are not Complete yet.
const MOST_AT_ONCE: u32 = 60;

impl World {
    /// Jobs whose main containers take up to three seconds, one after the other; gives their names.
    async fn stream_of_jobs(&self, name: &str, count: u32) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for number in 0..count {
            // However slow the machine is: a node takes so many pods and no more, and refuses
            // others for good.
            if let Some(earlier) = number.checked_sub(MOST_AT_ONCE) {
                self.job_ends(&names[usize::try_from(earlier).unwrap()], "Complete")
                    .await;
            }
            let policy = if number % 2 == 0 {
                "Never"
            } else {
                "OnFailure"
            };
            let main = container(self, "main", &format!("sleep {}", 1 + number % 3));
            let name = format!("{name}-{number}");
            self.create_job(job(
                &name,
                spec(policy, vec![main, sidecar(self, "log", EXITS_143)]),
            ))
            .await;
            names.push(name);
            sleep(Duration::from_millis(700)).await;
        }
        names
    }

    async fn all_complete(&self, jobs: &[String]) {
        for job in jobs {
            self.job_ends(job, "Complete").await;
        }
    }
}

/// The pods of Jobs whose images the installation has changed, each as often as that was done,
/// sorted.
fn swapped_by(installation: &Installation, world: &World) -> Vec<String> {
    let written = written_by(&installation.account(), Some(&world.namespace));
    let mut swapped: Vec<_> = written
        .into_iter()
        .filter(Written::is_applied_swap)
        .map(|write| write.pod)
        .collect();
    swapped.sort_unstable();
    swapped
}

/// The pods of these Jobs, and perhaps more, had their spec changed once each. The API server counts
/// the changes, also one whose answer nobody has waited for: a pod begins with 1.
async fn each_pod_was_changed_once(world: &World, jobs: &[String]) {
    let pods = world
        .pods()
        .await
        .into_iter()
        .filter(|pod| pod.metadata.owner_references.is_some());
    let changed: Vec<_> = pods
        .map(|pod| (pod.metadata.generation, pod.metadata.name))
        .collect();
    assert!(
        changed.len() >= jobs.len() && changed.iter().all(|(generation, _)| *generation == Some(2)),
        "one change of an image per pod: {changed:?}"
    );
}

#[tokio::test]
async fn an_installation_survives_the_death_of_its_leader_an_upgrade_and_its_own_removal() {
    let world = World::new("install").await;
    let installation = Installation::new(&world).await;
    installation.helm("install", &[]).await;

    let (mut jobs, leader) = (
        world.stream_of_jobs("first", 2).await,
        installation.leader().await,
    );
    world.all_complete(&jobs).await;

    // Jobs come and end while nobody leads.
    let (more, ()) = tokio::join!(world.stream_of_jobs("killed", 10), async {
        sleep(Duration::from_secs(2)).await;
        installation.kill(&leader).await;
    });
    jobs.extend(more);
    world.all_complete(&jobs).await;

    let (more, ()) = tokio::join!(
        world.stream_of_jobs("upgraded", 10),
        installation.helm("upgrade", &["--set", "log.format=text"])
    );
    jobs.extend(more);
    world.all_complete(&jobs).await;

    // What happens while nothing is installed is seen by the next installation.
    installation.uninstall().await;
    jobs.extend(world.stream_of_jobs("between", 2).await);
    installation.helm("install", &[]).await;
    world.all_complete(&jobs).await;

    each_pod_was_changed_once(&world, &jobs).await;
    installation.uninstall().await;
    installation.done().await;
    world.done().await;
}

/// So many Jobs while so many leaders die, and so many during an upgrade.
struct Load {
    killed: u32,
    deaths: usize,
    upgraded: u32,
}

impl Load {
    async fn fails_no_job(self, world: World, installation: Installation) {
        installation.helm("install", &[]).await;
        let (mut jobs, ()) = tokio::join!(world.stream_of_jobs("killed", self.killed), async {
            let mut leader = installation.leader().await;
            for _ in 0..self.deaths {
                installation.kill_for_good(&leader).await;
                leader = installation.leader_after(&leader).await;
                // It leads for a while.
                sleep(Duration::from_secs(5)).await;
            }
        });
        let upgrade = installation.helm("upgrade", &["--set", "log.format=text"]);
        let (more, ()) = tokio::join!(world.stream_of_jobs("upgraded", self.upgraded), upgrade);
        jobs.extend(more);
        world.all_complete(&jobs).await;
        each_pod_was_changed_once(&world, &jobs).await;
        installation.uninstall().await;
        installation.done().await;
        world.done().await;
    }
}

#[tokio::test]
async fn two_dead_leaders_and_an_upgrade_fail_no_job() {
    let world = World::new("install-deaths").await;
    let installation = Installation::new(&world).await;
    Load {
        killed: 32,
        deaths: 2,
        upgraded: 8,
    }
    .fails_no_job(world, installation)
    .await;
}

/// The idle times of which one has to be clean: a busy API server may break a watch off so that the
/// next one begins with a list. What is done each half minute or each minute is in all of them.
const TRIES: usize = 4;

/// What an installation asks for as verb and resource, in so long a time with one leader.
async fn asked_by_one_leader(
    installation: &Installation,
    idle: Duration,
) -> BTreeSet<(String, String)> {
    'of_one_leader: loop {
        let (leader, since, start) = (installation.leader().await, time_of_day(), Instant::now());
        while start.elapsed() < idle {
            sleep(Duration::from_secs(5)).await;
            // Whom a busy machine has kept from its Lease for too long gives way to another one,
            // which begins with lists.
            if installation.leader().await != leader {
                continue 'of_one_leader;
            }
        }
        return asked_by(&installation.account(), since);
    }
}

fn only_the_lease_is_written(asked: &BTreeSet<(String, String)>) -> bool {
    let (of_lease, other): (Vec<_>, Vec<_>) =
        asked.iter().partition(|(_, resource)| resource == "leases");
    // Which resources of OpenKruise's group there are is asked now and then, and is of no resource
    // itself; and after a watch that told nothing it is asked for the version of the server.
    let is_of_watches = |(verb, resource): &(String, String)| {
        ["watch", "version"].contains(&&**verb) || verb == "get" && resource.is_empty()
    };
    !of_lease.is_empty() && other.into_iter().all(is_of_watches)
}

/// For so long nothing happens.
async fn only_the_lease_is_written_for(idle: Duration, case: &str) {
    let world = World::new(case).await;
    let installation = Installation::new(&world).await;
    let all = format!(
        "{},restart.enabled=true,predownload.enabled=true",
        jobs_by(&world)
    );
    installation.helm("install", &["--set", &all]).await;
    // Pods of which it knows: one that runs, and one that it has ended.
    world
        .create_pod(crate::pods::pod(
            "runs",
            spec("Always", vec![container(&world, "app", EXITS_143)]),
        ))
        .await;
    let jobs = world.stream_of_jobs("ended", 1).await;
    world.all_complete(&jobs).await;
    pull(&world).await;
    // What is told late, and warmer pods that leave late.
    sleep(Duration::from_secs(60)).await;

    let mut all = Vec::new();
    let is_clean = loop {
        let asked = asked_by_one_leader(&installation, idle).await;
        let is_clean = only_the_lease_is_written(&asked);
        all.push(asked);
        if is_clean || all.len() == TRIES {
            break is_clean;
        }
    };
    assert!(is_clean, "{all:?}");
    installation.uninstall().await;
    installation.done().await;
    world.done().await;
}

/// Longer than whatever it does each half minute or each minute.
#[tokio::test]
async fn an_idle_installation_writes_its_lease_and_nothing_else() {
    only_the_lease_is_written_for(Duration::from_secs(100), "install-idle").await;
}

#[tokio::test]
async fn an_installation_restarts_containers_and_warms_images() {
    let world = World::new("install-more").await;
    let installation = Installation::new(&world).await;
    installation
        .helm(
            "install",
            &[
                "--set",
                "terminate.enabled=false,restart.enabled=true",
                "--set",
                &jobs_by(&world),
            ],
        )
        .await;
    installation.lease_waits_for_no_other_request(&world).await;

    // It ends no sidecars.
    let jobs = world.stream_of_jobs("not-ended", 1).await;
    world
        .create_pod(crate::pods::pod(
            "p",
            spec("Always", vec![container(&world, "app", EXITS_143)]),
        ))
        .await;
    let before = world
        .pod_is("p", "running", |pod| {
            installation::container_id(pod).is_some()
        })
        .await;
    installation.restart("p", &world).await;
    world
        .pod_is("p", "restarted", |pod| {
            installation::container_id(pod)
                .is_some_and(|id| Some(id) != installation::container_id(&before))
        })
        .await;

    installation.warm(&world).await;
    pull(&world).await;
    assert_eq!(
        swapped_by(&installation, &world),
        ["p"],
        "away from its image by another spelling, once"
    );
    assert_eq!(jobs.len(), 1);
    installation.uninstall().await;
    installation.done().await;
    world.done().await;
}

/// Values with which jobs are worked for.
fn jobs_by(world: &World) -> String {
    format!(
        "warm.enabled=true,warm.jobs.enabled=true,parkImage={}",
        world.images.park
    )
}

/// The leash lets a container be parked and brought back, by the controller and by the Job that
/// Helm runs at the end.
#[tokio::test]
async fn what_is_parked_when_an_installation_goes_comes_back() {
    let mut restart = Restarts::new("install-parked").await;
    let app = without_a_name(&restart, "install-parked").await;
    let before = restart.run_pod_with("Never", app).await;
    let installation = Installation::new(&restart.world).await;
    installation
        .helm(
            "install",
            &[
                "--set",
                &format!(
                    "restart.enabled=true,parkImage={}",
                    restart.world.images.park
                ),
            ],
        )
        .await;
    restart.request("by-the-installation", &forced()).await;
    assert_eq!(restart.completed("by-the-installation").await, succeeded());
    was_parked_once(&restart, &before).await;
    installation.test().await;

    // Its controller is gone, and another one parks the container and dies. That has another
    // account, which the leash of the installation would keep from writing which image the
    // container had.
    installation.stop().await;
    let binding = installation
        .lets_others_park(&before, &restart.world.images.park)
        .await;
    let witness = Witness::of(&mut restart.world).await;
    park_and_die(&restart, &witness, "halfway", &before).await;
    installation.binds_again(&binding).await;
    installation.uninstall().await;
    let after = restart
        .world
        .pod_is("p", "as it was", |pod| image(pod) == image(&before))
        .await;
    assert!(
        !after.labels().contains_key("swaplet.io/parked")
            && !after.annotations().contains_key("swaplet.io/parked")
    );
    installation.done().await;
    restart.world.done().await;
}

mod long {
    use super::*;

    /// The machine has nothing else to do meanwhile.
    #[tokio::test]
    async fn ten_dead_leaders_and_an_upgrade_fail_none_of_hundreds_of_jobs() {
        let world = World::new("install-load").await;
        let installation = Installation::new(&world).await.everywhere();
        Load {
            killed: 300,
            deaths: 10,
            upgraded: 60,
        }
        .fails_no_job(world, installation)
        .await;
    }

    /// A dozen watches are renewed meanwhile.
    #[tokio::test]
    async fn an_installation_that_is_idle_for_ten_minutes_writes_its_lease_and_nothing_else() {
        only_the_lease_is_written_for(Duration::from_secs(600), "install-idle-long").await;
    }
}
