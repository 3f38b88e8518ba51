//! Restarts that are repeated, one as soon as the one before is over: no container is lost to the
//! kubelet's back-off, whatever its policy and however it ends.

use std::collections::BTreeSet;

use futures::future::join_all;
use tokio::time::Instant;

use super::{Restarts, app, restarts, started, succeeded};
use crate::pods::{EXITS_0, EXITS_143};
use crate::restart_parking::image;

/// A container under each policy that is lost if it is not started again.
pub(super) const LOST: [(&str, &str); 3] = [
    ("Never", EXITS_143),
    ("OnFailure", EXITS_0),
    ("Always", EXITS_0),
];

/// Restarts the container `app` of a pod under each policy so many times, each by a name of its own.
pub(super) async fn restarted(case: &str, times: i32) {
    join_all(LOST.map(|(policy, script)| restarted_under(case, policy, script, times))).await;
}

async fn restarted_under(case: &str, policy: &str, script: &str, times: i32) {
    let case = format!("{case}-{}", policy.to_lowercase());
    let restart = Restarts::new(&case).await;
    let _controller = restart.controller().await;
    restart.run_pod(policy, script).await;
    let (mut names, begun) = (BTreeSet::new(), Instant::now());
    for nth in 1..=times {
        let name = format!("r{nth}");
        restart.request(&name, &app()).await;
        assert_eq!(
            restart.completed(&name).await,
            succeeded(),
            "{policy} {nth}"
        );
        let after = restart.world.pod_is("p", "there", |_| true).await;
        assert_eq!(restarts(&after, "app"), nth, "{policy}");
        assert!(started(&after, "app").is_some(), "{policy} {nth}");
        assert!(names.insert(image(&after).to_owned()), "{names:?}");
    }
    println!(
        "{policy}: {times} restarts in {} s",
        begun.elapsed().as_secs()
    );
    restart.world.done().await;
}

#[tokio::test]
async fn l1_six_restarts_in_a_row_lose_nothing() {
    restarted("restart-six", 6).await;
}
