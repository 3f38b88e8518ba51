//! Swaps go first: what is only told, or kept for later, waits while one waits or is under way, but
//! not for ever.

use std::time::Duration;

use http::Method;
use serde_json::json;
use swaplet_testbed::apiserver::Effect;
use tokio::time::{Instant, sleep_until};

use super::harness::{Life, World};
use super::line::Sent;
use super::node::Kubelet;
use super::objects::pod;

async fn run_pods(world: &World, count: usize) -> Vec<String> {
    let names: Vec<_> = (0..count).map(|nth| format!("p{nth}")).collect();
    for name in &names {
        world.run_pod(&pod(name, "OnFailure")).await;
    }
    names
}

/// When a life has sent requests of this method to such a path.
fn sent(life: &Life, method: &Method, is: impl Fn(&str) -> bool) -> Vec<Instant> {
    let path = |sent: &Sent| sent.uri.split('?').next().unwrap().to_owned();
    let all = life.line.sent().into_iter();
    all.filter(|sent| sent.method == method && is(&path(sent)))
        .map(|sent| sent.at)
        .collect()
}

fn swaps(life: &Life) -> Vec<Instant> {
    sent(life, &Method::PATCH, |path| path.contains("/pods/"))
}

fn events(life: &Life) -> Vec<Instant> {
    sent(life, &Method::POST, |path| path.ends_with("/events"))
}

/// Each pod got one patch and has one Event, and nothing more comes.
async fn all_is_told_once(world: &World, names: &[String]) {
    for name in names {
        assert_eq!(
            (world.patches(name), world.events(name)),
            (1, vec!["SidecarEnded".to_owned()]),
            "{name}"
        );
    }
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn in_a_burst_no_event_is_sent_before_the_last_swap_is_answered() {
    const DELAY: Duration = Duration::from_millis(200);
    let world = World::new();
    let names = run_pods(&world, 200).await;
    let life = world.start_controller();
    world.wait(1).await;
    world.patch_fault(Effect::Delay(DELAY));
    world.start_kubelet(Kubelet::default());
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(5).await;
    assert_eq!(world.phase("p0"), "Succeeded", "and is not told of yet");
    world.wait(15).await;
    let (swaps, events) = (swaps(&life), events(&life));
    assert_eq!((swaps.len(), events.len()), (200, 200));
    let answered = *swaps.last().unwrap() + DELAY;
    assert!(answered - swaps[0] > Duration::from_secs(8), "no burst");
    assert!(
        events.iter().all(|sent| *sent >= answered),
        "{:?} before the last answer",
        answered - events[0]
    );
    assert!(*events.last().unwrap() < answered + Duration::from_secs(5));
    all_is_told_once(&world, &names).await;
}

#[tokio::test(start_paused = true)]
async fn swaps_that_never_end_hold_no_event_back_for_ever() {
    const PAUSE: Duration = Duration::from_millis(150);
    let world = World::new();
    let names = run_pods(&world, 400).await;
    let life = world.start_controller();
    world.wait(1).await;
    // So there is always one under way.
    world.patch_fault(Effect::Delay(PAUSE + Duration::from_millis(100)));
    world.start_kubelet(Kubelet::default());
    let begun = Instant::now();
    for (nth, name) in (0_u32..).zip(&names) {
        sleep_until(begun + PAUSE * nth).await;
        world.ends(name, "main", 0).await;
    }
    let first = events(&life)[0] - begun;
    assert!((30..35).contains(&first.as_secs()), "{first:?}");
    let told = names
        .iter()
        .take_while(|name| world.events(name) == ["SidecarEnded"])
        .count();
    let old = (begun.elapsed() - Duration::from_secs(35)).as_millis() / PAUSE.as_millis();
    assert!(told as u128 >= old, "{told} of {old}");
    for (nth, swap) in (0_u32..).zip(swaps(&life)) {
        let late = swap - (begun + PAUSE * nth);
        assert!(late < Duration::from_millis(50), "swap {nth}: {late:?}");
    }
    world.wait(10).await;
    all_is_told_once(&world, &names).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_proved_on_nodes_is_kept_after_the_swaps() {
    const DELAY: Duration = Duration::from_millis(200);
    let world = World::new();
    world.create_namespace("state").await;
    world
        .label_node("node-1", &json!({"type": "virtual-kubelet"}))
        .await;
    let names = run_pods(&world, 40).await;
    let life = world.start_controller_keeping("state");
    world.wait(1).await;
    world.patch_fault(Effect::Delay(DELAY));
    world.start_kubelet(Kubelet::default());
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(20).await;
    let (swaps, kept) = (
        swaps(&life),
        sent(&life, &Method::POST, |path| path.ends_with("/configmaps")),
    );
    assert_eq!((swaps.len(), kept.len()), (40, 1));
    assert!(kept[0] >= *swaps.last().unwrap() + DELAY);
    all_is_told_once(&world, &names).await;
}
