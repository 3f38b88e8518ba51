//! The cases, by what they need of OpenKruise: to install it takes longer than most of them.

use crate::install::{OpenKruise, SidecarTerminator};
use crate::virtual_kubelet::VirtualNode;
use crate::world::World;
use crate::{both, daemon, outcomes, workloads};

#[tokio::test]
async fn openkruise_that_ends_sidecars() {
    let (ordinary, virtual_) = (World::new("both").await, World::new("both-virtual").await);
    let (theirs, ours) = (
        World::new("six-openkruise").await,
        World::new("six-swaplet").await,
    );
    let node = VirtualNode::start(&virtual_, &[]).await;
    let openkruise =
        OpenKruise::install(&[&ordinary, &virtual_, &theirs], SidecarTerminator::On).await;
    tokio::join!(
        both::each_pod_on_an_ordinary_node_has_one_actor(&ordinary),
        both::each_pod_on_a_virtual_node_has_one_actor(&virtual_, &node),
    );
    outcomes::six_jobs_with_openkruise_and_with_swaplet(&theirs, &ours).await;
    drop(openkruise);
    node.done(virtual_).await;
    for world in [ordinary, theirs, ours] {
        world.done().await;
    }
}

#[tokio::test]
async fn openkruise_whose_daemon_is_asked() {
    let (volume, prefer) = (World::new("volume").await, World::new("prefer-crr").await);
    let (dead, removed) = (
        World::new("dead-daemon").await,
        World::new("no-daemon").await,
    );
    let clones = World::new("clone-set").await;
    let node = VirtualNode::start(&clones, workloads::TELLS_IMAGES).await;
    let worlds = [&volume, &prefer, &dead, &removed, &clones];
    let openkruise = OpenKruise::install(&worlds, SidecarTerminator::Off).await;
    tokio::join!(
        daemon::a_command_on_a_volume_is_ended_by_the_daemon(&volume),
        daemon::the_daemon_is_asked_first_where_that_is_preferred(&prefer),
    );
    daemon::a_daemon_that_is_dead_costs_less_than_a_minute(&dead, &openkruise).await;
    daemon::a_daemon_that_is_removed_costs_less_than_a_minute(&removed, &openkruise).await;
    workloads::a_clone_set_updates_in_place(&clones, &node).await;
    drop(openkruise);
    node.done(clones).await;
    for world in [volume, prefer, dead, removed] {
        world.done().await;
    }
}
