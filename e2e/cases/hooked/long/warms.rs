//! The loop of jobs that pull images: the pods that it creates, and the images that it changes in
//! them.

use serde_json::{Value, json};
use swaplet_core::warm::pull_job::object::JobKind;

use super::{Hook, Hooked};
use crate::controller::{Controller, Why};
use crate::process::Process;
use crate::pull_jobs::Jobs;
use crate::world::variable;

const LIST: JobKind = JobKind::ImageListPullJob;

/// One of the images that the job pulls.
pub fn image(word: &str) -> String {
    let registry = variable("SWAPLET_E2E_REGISTRY");
    format!("{registry}/e2e/hooked-{word}:v1")
}

async fn begun(jobs: &Jobs) -> Process {
    let park = &jobs.world.images.park;
    let flags = ["--warm", "--park-image", park];
    let controller = Controller::process(&jobs.world, &flags, Why::NotByTheChart).await;
    let spec = json!({"images": [image("a"), image("b")], "pullPolicy": {"timeoutSeconds": 20, "backoffLimit": 0}});
    jobs.start(LIST, "all", spec).await;
    controller
}

/// A job that is over says so of both images and has no pods; one whose pods cannot be made has
/// pulled nothing.
async fn says_what_is_so(jobs: &Jobs, hook: Hook) -> Value {
    let job = jobs.api(LIST).get("all").await.unwrap();
    let status = job.data["status"].clone();
    let count = |field: &str| status[field].as_i64().unwrap_or_default();
    if status["completionTime"].is_string() {
        assert_eq!(count("completed"), 2, "{hook:?}: {status}");
        assert_eq!(count("active"), 0, "{hook:?}: {status}");
        jobs.has_pods(false).await;
    }
    if !hook.words().is_empty() {
        assert_eq!(count("succeeded"), 0, "{hook:?}: {status}");
    }
    status
}

pub async fn images(hook: Hook) {
    let case = format!("hooked-warm-{hook:?}").to_lowercase();
    let jobs = Jobs::unleashed_with_pods(&case).await;
    let hooked = Hooked::new(&jobs.world, hook).await;
    let controller = begun(&jobs).await;
    if hook.words().is_empty() {
        jobs.completed(LIST, "all").await;
    }
    hooked.is_quiet().await;
    says_what_is_so(&jobs, hook).await;
    drop(hooked);
    drop(controller);
    jobs.done().await;
}

/// By its time: a job whose pods cannot be made ends after ten minutes.
mod long {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    const TEN_MINUTES: Duration = Duration::from_secs(10 * 60);
    /// So late a busy machine may be.
    const LATE: Duration = Duration::from_secs(2 * 60);

    async fn ends(hook: Hook) {
        let case = format!("hooked-ends-{hook:?}").to_lowercase();
        let jobs = Jobs::unleashed_with_pods(&case).await;
        let hooked = Hooked::new(&jobs.world, hook).await;
        let controller = begun(&jobs).await;
        let begun = Instant::now();
        let status = loop {
            let status = says_what_is_so(&jobs, hook).await;
            if status["completionTime"].is_string() {
                break status;
            }
            assert!(begun.elapsed() < TEN_MINUTES + LATE, "{hook:?}: {status}");
            sleep(Duration::from_secs(5)).await;
        };
        let failed = status["failedImageStatuses"].to_string();
        assert!(failed.contains(hook.words()), "{hook:?}: {status}");
        drop(hooked);
        drop(controller);
        jobs.done().await;
    }

    #[tokio::test]
    async fn a_job_of_which_no_pod_can_be_made_fails_within_ten_minutes() {
        tokio::join!(ends(Hook::Denies), ends(Hook::Gone), ends(Hook::Hangs));
    }
}
