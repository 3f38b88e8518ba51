//! The rows of the table, by their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::lab::{EACH, Lab, is_running, of, sides, tally};
use crate::kubelet::Killed;
use crate::pods::{EXITS_0, EXITS_143, IGNORES_TERM, job, main_ok};
use crate::world::{eventually, phase_of};

type Row<'a> = (u32, BoxFuture<'a, String>);

const BOTH: [&str; 2] = ["Never", "OnFailure"];
/// The sidecar of most pods.
const SIDE: &str = "containers/1";
/// The only container of a pod.
const ONLY: &str = "containers/0";
/// Stops so slowly that all of them do when the kubelet is killed, and says when it begins.
const STOPS_IN_15_S: &str = "trap 'echo stops; sleep 15; exit 143' TERM; sleep 3600 & wait";
/// The kubelet is not there until they have stopped.
const DEAD: Duration = Duration::from_secs(20);
/// Jobs whose pod may have succeeded before the Job controller sees the restart that fails them.
const RACES: [u32; 2] = [27, 28];

/// All that need a kubelet.
pub fn all(lab: &Lab) -> Vec<Row<'_>> {
    let (exit, missing, back) = (
        &*lab.world.images.exit,
        &*lab.world.images.missing,
        &*lab.world.images.work,
    );
    let mut shell = lab.side(EXITS_143);
    shell["command"] = json!(["/bin/sh", "-c"]);
    let mut rows: Vec<Row<'_>> = vec![
        (7, swaps(lab, 7, &["Never"], lab.own_side(), exit).boxed()),
        (
            8,
            swaps(lab, 8, &["OnFailure"], lab.own_side(), exit).boxed(),
        ),
        (9, swaps(lab, 9, &BOTH, shell, exit).boxed()),
        (
            17,
            aliases(lab, 17, &["Never", "OnFailure", "Always"], true).boxed(),
        ),
        (18, aliases(lab, 18, &["Never"], false).boxed()),
        (19, there_and_back(lab, 19, lab.alias(true), back).boxed()),
        (
            20,
            there_and_back(lab, 20, lab.world.images.park.clone(), back).boxed(),
        ),
        (21, exit_and_back(lab, 21, "Never").boxed()),
        (22, exit_and_back(lab, 22, "Always").boxed()),
        (23, native(lab).boxed()),
        (25, not_pulled(lab).boxed()),
        (26, three_at_once(lab).boxed()),
        (27, jobs(lab, 27, "OnFailure", 0, 1).boxed()),
        (28, jobs(lab, 28, "OnFailure", 1, 2).boxed()),
        (29, jobs(lab, 29, "Never", 0, 1).boxed()),
        (31, phase_alone(lab).boxed()),
        (32, phases(lab, 32, "Never", EXITS_143).boxed()),
        (33, phases(lab, 33, "OnFailure", IGNORES_TERM).boxed()),
        (34, jobs(lab, 34, "OnFailure", 0, 1).boxed()),
        (36, on_a_volume(lab).boxed()),
        (40, generation(lab).boxed()),
    ];
    for (number, script) in (1..).zip([EXITS_0, EXITS_143, IGNORES_TERM]) {
        rows.push((
            number,
            swaps(lab, number, &["Never"], lab.side(script), exit).boxed(),
        ));
        let number = number + 3;
        rows.push((
            number,
            swaps(lab, number, &["OnFailure"], lab.side(script), exit).boxed(),
        ));
    }
    for (number, script) in (11..).zip([EXITS_0, EXITS_143]) {
        rows.push((
            number,
            swaps(lab, number, &["Never"], lab.side(script), missing).boxed(),
        ));
        let number = number + 2;
        rows.push((
            number,
            swaps(lab, number, &["OnFailure"], lab.side(script), missing).boxed(),
        ));
    }
    rows
}

/// The kubelet is killed while it stops the sidecars of both, and started again.
pub async fn with_a_dead_kubelet(lab: &Lab) -> [(u32, String); 2] {
    let rows = [(37, "Never"), (38, "OnFailure")];
    let of_row = |(number, policy)| names(number).into_iter().map(move |name| (name, policy));
    let pods: Vec<_> = rows.into_iter().flat_map(of_row).collect();
    let stopping = pods.iter().map(|(name, policy)| async move {
        let more = json!({"terminationGracePeriodSeconds": 60});
        lab.make(name, policy, vec![lab.side(STOPS_IN_15_S)], more)
            .await;
        lab.is_ready(name).await;
    });
    join_all(stopping).await;
    let stopping = pods.iter().map(|(name, _)| async move {
        lab.write(name, &[(SIDE, &lab.world.images.exit)]).await;
        lab.says(name, "stops").await;
    });
    join_all(stopping).await;
    let killed = Killed::new();
    sleep(DEAD).await;
    drop(killed);
    let ends = join_all(pods.iter().map(|(name, _)| lab.end(name))).await;
    let (never, on_failure) = ends.split_at(EACH);
    [(37, tally(never)), (38, tally(on_failure))]
}

/// The rows with a result that was not recorded.
pub fn differing(recorded: &Value, results: &BTreeMap<u32, String>) -> Vec<String> {
    let kinds = |told: &str| -> BTreeSet<String> {
        let all = told.split(", ").filter_map(|part| part.rsplit_once(' '));
        all.map(|(kind, _)| kind.to_owned()).collect()
    };
    let mut differ = Vec::new();
    for (number, result) in results {
        let before = recorded[number.to_string()].as_str().unwrap_or_default();
        let mut allowed = kinds(before);
        if RACES.contains(number) {
            allowed.insert("Complete".to_owned());
        }
        if !kinds(result).is_subset(&allowed) {
            differ.push(format!("row {number}: {result}, recorded: {before}"));
        }
    }
    differ
}

fn names(number: u32) -> Vec<String> {
    (0..EACH).map(|nth| format!("row-{number}-{nth}")).collect()
}

/// Each pod of a row, with the policy of its turn; the results together.
async fn each<F: Future<Output = &'static str>>(
    number: u32,
    policies: &[&'static str],
    one: impl Fn(String, &'static str) -> F,
) -> String {
    let turns = names(number).into_iter().zip(policies.iter().cycle());
    tally(&join_all(turns.map(|(name, policy)| one(name, policy))).await)
}

/// The sidecar gets another image when the main container has ended.
async fn swaps(
    lab: &Lab,
    number: u32,
    policies: &[&'static str],
    side: Value,
    image: &str,
) -> String {
    let side = &side;
    each(number, policies, |name, policy| async move {
        lab.ready(&name, policy, vec![side.clone()]).await;
        lab.write(&name, &[(SIDE, image)]).await;
        lab.end(&name).await
    })
    .await
}

/// The only container gets another name of its image.
async fn aliases(lab: &Lab, number: u32, policies: &[&'static str], with_tag: bool) -> String {
    each(number, policies, |name, policy| async move {
        lab.alone(&name, policy, EXITS_143).await;
        lab.write(&name, &[(ONLY, &lab.alias(with_tag))]).await;
        restarted(lab.restarted(&name, 1).await)
    })
    .await
}

fn restarted(it_is: bool) -> &'static str {
    if it_is { "restarted" } else { "lost" }
}

/// The only container gets another image, and back.
async fn there_and_back(lab: &Lab, number: u32, there: String, back: &str) -> String {
    let there = &there;
    each(number, &BOTH, |name, policy| async move {
        lab.alone(&name, policy, EXITS_143).await;
        lab.write(&name, &[(ONLY, there)]).await;
        let is_there = lab.restarted(&name, 1).await;
        lab.write(&name, &[(ONLY, back)]).await;
        restarted(is_there && lab.restarted(&name, 2).await)
    })
    .await
}

/// The exit image ends the container, which then gets its own image again.
async fn exit_and_back(lab: &Lab, number: u32, policy: &'static str) -> String {
    each(number, &[policy], |name, policy| async move {
        let main = json!({"name": "main", "image": lab.world.images.work, "args": ["sleep 3600"]});
        let spec = of(policy, vec![main, lab.side(EXITS_143)]);
        lab.world.create_pod(crate::pods::pod(&name, spec)).await;
        lab.restarted(&name, 0).await;
        lab.write(&name, &[(SIDE, &lab.world.images.exit)]).await;
        let has_ended = |pod: &Pod| {
            let mut all = sides(pod);
            all.all(|side| side.restart_count > 0 && !is_running(side))
                .then_some(())
        };
        lab.within(&name, has_ended).await;
        lab.write(&name, &[(SIDE, &lab.world.images.work)]).await;
        let work = &lab.world.images.work;
        let is_back = |pod: &Pod| {
            let mut all = sides(pod);
            all.all(|side| is_running(side) && side.image == *work)
                .then_some("comes back")
        };
        lab.within(&name, is_back).await.unwrap_or("stays ended")
    })
    .await
}

async fn native(lab: &Lab) -> String {
    each(23, &BOTH, |name, policy| async move {
        let main = json!({"name": "main", "image": lab.world.images.work, "args": ["sleep 3600"]});
        let mut side = lab.side(EXITS_143);
        side["restartPolicy"] = json!("Always");
        let mut spec = of(policy, vec![main]);
        spec["initContainers"] = json!([side]);
        lab.world.create_pod(crate::pods::pod(&name, spec)).await;
        lab.restarted(&name, 0).await;
        lab.write(&name, &[("initContainers/0", &lab.alias(true))])
            .await;
        restarted(lab.restarted(&name, 1).await)
    })
    .await
}

/// The image of the sidecar was never there.
async fn not_pulled(lab: &Lab) -> String {
    each(25, &BOTH, |name, policy| async move {
        let mut side = lab.side(EXITS_143);
        side["image"] = json!(lab.world.images.missing);
        let spec = of(policy, vec![main_ok(&lab.world), side]);
        lab.world.create_pod(crate::pods::pod(&name, spec)).await;
        let waits = |pod: &Pod| {
            let mut all = sides(pod);
            let state = all.next()?.state.as_ref()?;
            (state.waiting.as_ref()?.reason.as_deref()? == "ImagePullBackOff").then_some(())
        };
        lab.within(&name, waits).await;
        lab.write(&name, &[(SIDE, &lab.world.images.exit)]).await;
        lab.end(&name).await
    })
    .await
}

/// Three sidecars that ignore SIGTERM for the 4 s of their grace period.
async fn three_at_once(lab: &Lab) -> String {
    each(26, &["OnFailure"], |name, policy| async move {
        let three = ["side", "side-b", "side-c"].map(|name| {
            let mut side = lab.side(IGNORES_TERM);
            side["name"] = json!(name);
            side
        });
        lab.ready(&name, policy, three.to_vec()).await;
        let exit = &*lab.world.images.exit;
        let begun = Instant::now();
        let paths = [SIDE, "containers/2", "containers/3"].map(|path| (path, exit));
        lab.write(&name, &paths).await;
        match lab.end(&name).await {
            "S" if begun.elapsed() >= Duration::from_secs(12) => "one after another",
            "S" => "at once",
            other => other,
        }
    })
    .await
}

/// Jobs of one pod, whose sidecars are swapped, or whose phase is written in row 34.
async fn jobs(lab: &Lab, number: u32, policy: &'static str, limit: u32, count: usize) -> String {
    each(number, &[policy], |name, policy| async move {
        let named = ["side", "side-b"].into_iter().take(count).map(|name| {
            let mut side = lab.side(EXITS_143);
            side["name"] = json!(name);
            side
        });
        let mut object = job(
            &name,
            of(
                policy,
                std::iter::once(main_ok(&lab.world)).chain(named).collect(),
            ),
        );
        object["spec"]["backoffLimit"] = json!(limit);
        lab.world.create_job(object).await;
        let pod = eventually("the pod of a Job", || async {
            let all = lab.world.pods().await;
            all.into_iter()
                .find(|pod| pod.labels().get("job-name") == Some(&name))
        })
        .await
        .name_any();
        lab.is_ready(&pod).await;
        if number == 34 {
            lab.write_phase(&pod, true).await;
        } else {
            let exit = &*lab.world.images.exit;
            let paths = [(SIDE, exit), ("containers/2", exit)];
            lab.write(&pod, &paths[..count]).await;
        }
        job_ends(lab, &name).await
    })
    .await
}

async fn job_ends(lab: &Lab, name: &str) -> &'static str {
    eventually("a Job to end", || async {
        let job = lab.world.api::<Job>().get(name).await.unwrap();
        let conditions = job.status?.conditions?;
        ["Complete", "Failed"].into_iter().find(|end| {
            let is_it = |condition: &&k8s_openapi::api::batch::v1::JobCondition| {
                condition.type_ == *end && condition.status == "True"
            };
            conditions.iter().any(|condition| is_it(&condition))
        })
    })
    .await
}

async fn phase_alone(lab: &Lab) -> String {
    each(31, &BOTH, |name, policy| async move {
        lab.ready(&name, policy, vec![lab.side(EXITS_143)]).await;
        lab.write_phase(&name, false).await;
        let reverted = |pod: &Pod| (phase_of(pod) == "Running").then_some("Running again");
        lab.within(&name, reverted).await.unwrap_or("stays")
    })
    .await
}

async fn phases(lab: &Lab, number: u32, policy: &'static str, script: &str) -> String {
    each(number, &[policy], |name, policy| async move {
        lab.ready(&name, policy, vec![lab.side(script)]).await;
        lab.write_phase(&name, true).await;
        lab.end(&name).await
    })
    .await
}

/// The exit image does not hide a program on a volume.
async fn on_a_volume(lab: &Lab) -> String {
    each(36, &BOTH, |name, policy| async move {
        let mounts = json!([{"name": "v", "mountPath": "/v"}]);
        let work = &lab.world.images.work;
        let mut side = lab.side(EXITS_143);
        side["command"] = json!(["/v/busybox", "sh", "-c"]);
        side["volumeMounts"] = mounts.clone();
        let copies = json!({"name": "copies", "image": work, "args": ["/bin/busybox cp /bin/busybox /v/busybox"], "volumeMounts": mounts});
        let more = json!({"initContainers": [copies], "volumes": [{"name": "v", "emptyDir": {}}]});
        lab.make(&name, policy, vec![side], more).await;
        lab.is_ready(&name).await;
        lab.write(&name, &[(SIDE, &lab.world.images.exit)]).await;
        if lab.restarted(&name, 1).await { "the program runs again" } else { "ended" }
    })
    .await
}

async fn generation(lab: &Lab) -> String {
    each(40, &["Never"], |name, policy| async move {
        lab.alone(&name, policy, EXITS_143).await;
        let pod = lab.now(&name).await;
        let is_there = pod
            .status
            .is_some_and(|status| status.observed_generation.is_some());
        if is_there { "there" } else { "absent" }
    })
    .await
}
