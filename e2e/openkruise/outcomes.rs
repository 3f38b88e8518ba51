//! The six Jobs of `docs/measured.md`, "OpenKruise 1.9 on an ordinary node": what becomes of them
//! with OpenKruise's SidecarTerminator, and with swaplet.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use tokio::time::{Instant, sleep};

use crate::pods::{EXITS_0, EXITS_143, container, job, sidecar, spec};
use crate::process::Process;
use crate::world::{PATIENCE, World};

/// How long a Job is looked at whose sidecar exits with 143 and is not ended again: with OpenKruise
/// two of the six.
const OBSERVED: Duration = Duration::from_secs(60);

struct Case {
    pods: u32,
    policy: &'static str,
    script: &'static str,
}

const CASES: [Case; 6] = [
    Case {
        pods: 1,
        policy: "Never",
        script: EXITS_0,
    },
    Case {
        pods: 1,
        policy: "Never",
        script: EXITS_143,
    },
    Case {
        pods: 1,
        policy: "OnFailure",
        script: EXITS_0,
    },
    Case {
        pods: 1,
        policy: "OnFailure",
        script: EXITS_143,
    },
    Case {
        pods: 10,
        policy: "OnFailure",
        script: EXITS_0,
    },
    Case {
        pods: 10,
        policy: "OnFailure",
        script: EXITS_143,
    },
];

impl Case {
    fn code(&self) -> &'static str {
        if self.script == EXITS_0 { "0" } else { "143" }
    }

    fn name(&self) -> String {
        format!(
            "{}-{}-{}",
            self.policy.to_lowercase(),
            self.pods,
            self.code()
        )
    }

    fn job(&self, world: &World) -> serde_json::Value {
        let main = container(world, "main", "sleep 4");
        let mut job = job(
            &self.name(),
            spec(self.policy, vec![main, sidecar(world, "log", self.script)]),
        );
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
    /// How long it was looked at.
    observed: Duration,
}

impl Outcome {
    fn is(&self, condition: &str) -> bool {
        self.ended
            .as_ref()
            .is_some_and(|(found, _)| found == condition)
    }

    fn is_complete(&self) -> bool {
        self.is("Complete") && self.status.failed.unwrap_or_default() == 0
    }

    fn text(&self) -> String {
        let failed = self.status.failed.unwrap_or_default();
        match &self.ended {
            Some((condition, after)) if failed == 0 => {
                format!("{condition}, {:.1} s", after.as_secs_f32())
            }
            Some((condition, after)) => format!(
                "{condition}, {:.1} s, {failed} pods failed",
                after.as_secs_f32()
            ),
            None => format!(
                "not done after {} s, {failed} pods failed",
                self.observed.as_secs()
            ),
        }
    }
}

/// All six at once in a namespace, since then.
struct Run<'a> {
    world: &'a World,
    start: Instant,
}

impl<'a> Run<'a> {
    async fn start(world: &'a World) -> Self {
        for case in &CASES {
            world.create_job(case.job(world)).await;
        }
        Self {
            world,
            start: Instant::now(),
        }
    }

    /// What becomes of those among them, each with its place among the six.
    async fn outcomes(
        &self,
        among: impl Fn(&Case) -> bool,
        observed: Duration,
    ) -> Vec<(usize, Outcome)> {
        let chosen = CASES.iter().enumerate().filter(|(_, case)| among(case));
        let outcomes = chosen.map(async |(place, case)| {
            (
                place,
                outcome(self.world, case.name(), self.start, observed).await,
            )
        });
        futures::future::join_all(outcomes).await
    }
}

async fn outcome(world: &World, name: String, start: Instant, observed: Duration) -> Outcome {
    loop {
        let status = world
            .api::<Job>()
            .get(&name)
            .await
            .unwrap()
            .status
            .unwrap_or_default();
        let ended = status.conditions.iter().flatten().find(|found| {
            found.status == "True" && ["Complete", "Failed"].contains(&&*found.type_)
        });
        let ended = ended.map(|condition| (condition.type_.clone(), start.elapsed()));
        if ended.is_some() || start.elapsed() > observed {
            return Outcome {
                ended,
                status,
                observed,
            };
        }
        sleep(Duration::from_millis(200)).await;
    }
}

fn table(theirs: &[Outcome], ours: &[Outcome]) -> String {
    let mut table = format!(
        "{:6}{:12}{:20}{:44}{}\n",
        "pods", "policy", "sidecar exits with", "OpenKruise 1.9", "swaplet"
    );
    for ((case, theirs), ours) in CASES.iter().zip(theirs).zip(ours) {
        let _ = writeln!(
            table,
            "{:<6}{:12}{:20}{:44}{}",
            case.pods,
            case.policy,
            case.code(),
            theirs.text(),
            ours.text()
        );
    }
    table
}

/// OpenKruise acts in the one namespace and is kept out of the other, so swaplet has that one to
/// itself. While two Jobs with OpenKruise are waited for in vain, which costs the machine nothing,
/// the six run with swaplet.
pub async fn six_jobs_with_openkruise_and_with_swaplet(openkruise: &World, swaplet: &World) {
    let _controller = Process::start_with(swaplet, &[]).await;
    let endless = |case: &Case| case.pods == 1 && case.script == EXITS_143;
    let run = Run::start(openkruise).await;
    let mut theirs = run.outcomes(|case| !endless(case), PATIENCE).await;
    let ours = async { Run::start(swaplet).await.outcomes(|_| true, PATIENCE).await };
    let (hanging, ours) = tokio::join!(run.outcomes(endless, OBSERVED), ours);
    theirs.extend(hanging);
    theirs.sort_by_key(|(place, _)| *place);
    let [theirs, ours] = [theirs, ours].map(|all| {
        all.into_iter()
            .map(|(_, outcome)| outcome)
            .collect::<Vec<_>>()
    });
    // Past the test runner, which keeps what a case prints to itself.
    std::io::stderr()
        .write_all(format!("\n{}\n", table(&theirs, &ours)).as_bytes())
        .unwrap();
    // What swaplet is better than: without it the test could not tell.
    let as_known = CASES
        .iter()
        .zip(&theirs)
        .all(|(case, found)| found.is_complete() == (case.script == EXITS_0));
    assert!(
        as_known && theirs[5].is("Failed"),
        "this is not what is known of OpenKruise: has it changed?"
    );
    assert!(
        ours.iter().all(Outcome::is_complete),
        "not every Job is Complete with swaplet"
    );
}
