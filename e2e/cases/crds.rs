//! The CRDs that cases need, created once for all of them.

use swaplet_core::warm::pull_job::object::JobKind;
use tokio::sync::OnceCell;

use crate::world::create_crd;

static OF_REQUESTS: OnceCell<()> = OnceCell::const_new();
static OF_PULL_JOBS: OnceCell<()> = OnceCell::const_new();

/// The API server knows requests.
pub async fn requests_are_served() {
    OF_REQUESTS
        .get_or_init(|| create_crd("containerrecreaterequests"))
        .await;
}

/// The API server knows both kinds of jobs that pull images.
pub async fn pull_jobs_are_served() {
    OF_PULL_JOBS
        .get_or_init(async || {
            for kind in JobKind::ALL {
                create_crd(kind.plural()).await;
            }
        })
        .await;
}
