//! A controller for some pods only.

use swaplet_controller::terminate::selection::Progress;
use swaplet_core::objects::pod::Phase;
use swaplet_core::report::reason::Reason;
use tokio::sync::mpsc::UnboundedReceiver;

use super::harness::World;
use super::objects::{EXIT, pod};

async fn stuck(names: &[&str]) -> World {
    let world = World::new();
    for name in names {
        world.run_pod(&pod(name, "Never")).await;
        world.ends(name, "main", 0).await;
    }
    world
}

fn told(news: &mut UnboundedReceiver<Progress>) -> Vec<Progress> {
    std::iter::from_fn(|| news.try_recv().ok()).collect()
}

fn decisions(news: &[Progress]) -> Vec<Reason> {
    news.iter()
        .filter_map(|news| {
            if let Progress::Decided { reason, .. } = news {
                Some(*reason)
            } else {
                None
            }
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn only_the_selected_pods_are_ended_and_told_of() {
    let world = stuck(&["wanted", "other"]).await;
    let (_life, mut news) = world.start_controller_for(&["wanted"]);
    world.wait(5).await;
    assert_eq!(
        (world.image("wanted"), world.image("other")),
        (EXIT.to_owned(), "side:1".to_owned())
    );
    let first = told(&mut news);
    assert!(first.iter().any(|news| matches!(news, Progress::Reported(notice) if notice.report.reason == Reason::SidecarSwapped)), "{first:?}");
    assert_eq!(
        decisions(&first).last(),
        Some(&Reason::SwapPending),
        "{first:?}"
    );
    world.ends("wanted", "side", 0).await;
    world
        .set_status("wanted", serde_json::json!({"phase": "Succeeded"}))
        .await;
    world.wait(1).await;
    let last = told(&mut news);
    assert!(
        matches!(
            last.last(),
            Some(Progress::Over {
                phase: Phase::Succeeded,
                ..
            })
        ),
        "{last:?}"
    );
    assert_eq!(world.notes("other"), []);
    world.assert_quiet().await;
}

/// Nobody waits for a pod that is gone, whether it was deleted before the controller's list or
/// after.
#[tokio::test(start_paused = true)]
async fn a_selected_pod_that_is_gone_is_over() {
    let world = stuck(&["before", "after"]).await;
    let (_life, mut news) = {
        let controller = world.start_controller_for(&["before", "after"]);
        world.remove("before").await;
        controller
    };
    world.wait(2).await;
    world.remove("after").await;
    world.wait(2).await;
    let over = told(&mut news)
        .into_iter()
        .filter(|news| matches!(news, Progress::Over { .. }))
        .count();
    assert_eq!(over, 2);
    world.assert_quiet().await;
}
