//! The six Jobs of the truth table, section 9: what becomes of them with OpenKruise's SidecarTerminator, and with swaplet.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use tokio::time::{Instant, sleep};

use crate::controller::Controller;
use crate::install::{OpenKruise, SidecarTerminator};
use crate::pods::{EXITS_0, EXITS_143, container, job, sidecar, spec};
use crate::world::World;

/// A Job that is not done by then is called so: with OpenKruise two of them never end.
const OBSERVED: Duration = Duration::from_secs(120);

struct Case {
    pods: u32,
    policy: &'static str,
    script: &'static str,
}

const CASES: [Case; 6] = [
    Case { pods: 1, policy: "Never", script: EXITS_0 },
    Case { pods: 1, policy: "Never", script: EXITS_143 },
    Case { pods: 1, policy: "OnFailure", script: EXITS_0 },
    Case { pods: 1, policy: "OnFailure", script: EXITS_143 },
    Case { pods: 10, policy: "OnFailure", script: EXITS_0 },
    Case { pods: 10, policy: "OnFailure", script: EXITS_143 },
];

impl Case {
    fn code(&self) -> &'static str {
        if self.script == EXITS_0 { "0" } else { "143" }
    }

    fn name(&self) -> String {
        format!("{}-{}-{}", self.policy.to_lowercase(), self.pods, self.code())
    }

    fn job(&self, world: &World) -> serde_json::Value {
        let main = container(world, "main", "sleep 4");
        let mut job = job(&self.name(), spec(self.policy, vec![main, sidecar(world, "log", self.script)]));
        job["spec"]["parallelism"] = self.pods.into();
        job["spec"]["completions"] = self.pods.into();
        job["spec"]["backoffLimit"] = 6.into();
        job
    }
}

/// What has become of a Job.
struct Outcome {
    ended: Option<(String, Duration)>,
    status: JobStatus,
}

impl Outcome {
    fn is_complete(&self) -> bool {
        self.ended.as_ref().is_some_and(|(condition, _)| condition == "Complete") && self.status.failed.unwrap_or_default() == 0
    }

    fn text(&self) -> String {
        let failed = self.status.failed.unwrap_or_default();
        match &self.ended {
            Some((condition, after)) if failed == 0 => format!("{condition}, {:.1} s", after.as_secs_f32()),
            Some((condition, after)) => format!("{condition}, {:.1} s, {failed} pods failed", after.as_secs_f32()),
            None => format!("not done after {} s, {failed} pods failed", OBSERVED.as_secs()),
        }
    }
}

/// Runs all six at once.
async fn outcomes(world: &World) -> Vec<Outcome> {
    for case in &CASES {
        world.create_job(case.job(world)).await;
    }
    let start = Instant::now();
    let names = CASES.each_ref().map(Case::name);
    futures::future::join_all(names.iter().map(|name| outcome(world, name, start))).await
}

async fn outcome(world: &World, name: &str, start: Instant) -> Outcome {
    loop {
        let status = world.api::<Job>().get(name).await.unwrap().status.unwrap_or_default();
        let ended =
            status.conditions.iter().flatten().find(|found| found.status == "True" && ["Complete", "Failed"].contains(&&*found.type_));
        let ended = ended.map(|condition| (condition.type_.clone(), start.elapsed()));
        if ended.is_some() || start.elapsed() > OBSERVED {
            return Outcome { ended, status };
        }
        sleep(Duration::from_millis(200)).await;
    }
}

fn table(theirs: &[Outcome], ours: &[Outcome]) -> String {
    let mut table = format!("{:6}{:12}{:20}{:44}{}\n", "pods", "policy", "sidecar exits with", "OpenKruise 1.9", "swaplet");
    for ((case, theirs), ours) in CASES.iter().zip(theirs).zip(ours) {
        let _ = writeln!(table, "{:<6}{:12}{:20}{:44}{}", case.pods, case.policy, case.code(), theirs.text(), ours.text());
    }
    table
}

#[tokio::test]
async fn six_jobs_with_openkruise_and_with_swaplet() {
    let world = World::new("six-openkruise").await;
    let openkruise = OpenKruise::install(&world, SidecarTerminator::On).await;
    let theirs = outcomes(&world).await;
    drop(openkruise);
    world.done().await;

    let world = World::new("six-swaplet").await;
    let openkruise = OpenKruise::install(&world, SidecarTerminator::Off).await;
    let _controller = Controller::start_beside_openkruise(&world, &[]).await;
    let ours = outcomes(&world).await;
    // Past the test runner, which keeps what a case prints to itself.
    write!(std::io::stderr(), "\n{}\n", table(&theirs, &ours)).unwrap();
    // What swaplet is better than: without it the test could not tell.
    assert!(!theirs[1].is_complete() && !theirs[3].is_complete(), "OpenKruise has completed a Job whose sidecar exits with 143");
    assert!(ours.iter().all(Outcome::is_complete), "not every Job is Complete with swaplet");
    drop(openkruise);
    world.done().await;
}
