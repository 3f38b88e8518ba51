//! Containers that stay parked, of very many pods.

use swaplet_core::image::path_set::PathSet;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::pod::RestartPodWire;

use super::*;
use crate::restart::write::Stored;
use crate::terminate::index::Effect;

const PARK: &str = "r.example/park:1";

/// A pod whose record names a park image that this installation does not have.
fn parked(number: usize, image: &str) -> Event<RestartPodWire> {
    event(pod_in(number, image))
}

fn event(pod: Value) -> Event<RestartPodWire> {
    Event::Applied(serde_json::from_value(pod).unwrap())
}

fn pod_in(number: usize, image: &str) -> Value {
    let name = format!("p{number}");
    let record = json!({"pod": name, "name": "r", "request": "ru", "park": PARK, "images": {"app": "r.example/app:1"}});
    let mut pod = pod("team", &name, "1");
    pod["metadata"]["annotations"] = json!({"swaplet.io/parked": record.to_string()});
    pod["spec"]["containers"][0]["image"] = json!(image);
    pod
}

/// The writes and the reports after so many seconds.
fn after(restarts: &mut Restarts, index: &mut Index, seconds: u64) -> (usize, usize) {
    let now = Now {
        moment: Moment::after_start(Duration::from_secs(seconds)),
        ..NOW
    };
    let writes: usize = (0..100).map(|_| turn(restarts, index, now).len()).sum();
    let learned = index.take_effects().into_iter();
    let notices = learned.filter(|effect| matches!(effect, Effect::Notice(_)));
    (writes, notices.count())
}

#[test]
fn very_many_parked_pods_are_reported_in_turn_and_a_change_is_observed_as_long_as_ever() {
    let (mut restarts, mut index) = (Restarts::new(None, false), index());
    restarts.handle(Event::ListStart, NOW.moment);
    restarts.handle(Event::ListEnd, NOW.moment);
    for number in 0..200 {
        restarts.observe_parked(parked(number, PARK), NOW.moment);
    }
    let mut after = |seconds| after(&mut restarts, &mut index, seconds);
    assert_eq!(after(1), (0, 0), "they are observed for a while");
    assert_eq!(after(20), (0, 64));
    assert_eq!(after(300), (0, 0), "the rest waits, and nothing spins");
    assert_eq!(after(621), (0, 0));
    assert_eq!(after(640), (0, 64));
    // Of one that waits, somebody has changed the image: the record goes once it has run.
    let then = Moment::after_start(Duration::from_secs(700));
    restarts.observe_parked(parked(99, "r.example/app:2"), then);
    let mut after = |seconds| self::after(&mut restarts, &mut index, seconds);
    assert_eq!(after(700), (0, 0));
    assert_eq!(after(709), (0, 0), "its request may not be observed yet");
    assert_eq!(after(711), (0, 0), "it has not been seen running");
}

/// A webhook may have made its image of the park image, and nobody else knows what it had.
#[test]
fn u223_a_record_whose_container_has_another_image_goes_once_that_is_told() {
    let (mut restarts, mut index) = (Restarts::new(None, false), index());
    restarts.handle(Event::ListStart, NOW.moment);
    restarts.handle(Event::ListEnd, NOW.moment);
    for number in 0..65 {
        let image = "r.example/other:2";
        let mut pod = pod_in(number, image);
        pod["status"]["containerStatuses"] =
            json!([{"name": "app", "image": image, "state": {"running": {}}}]);
        restarts.observe_parked(event(pod), NOW.moment);
    }
    let mut after = |seconds| after(&mut restarts, &mut index, seconds);
    assert_eq!(after(1), (64, 64), "the last one stays until it is told");
    assert_eq!(after(600), (0, 0));
    assert_eq!(after(602), (1, 1));
}

/// The pod is deleted while its image is put back; or the label by which it is watched is gone,
/// because the write was applied.
#[test]
fn an_image_is_reported_as_put_back_only_if_it_was() {
    let no_paths = PathSet::new([""; 0]).unwrap();
    let park = ParkImage::new(PARK.parse().unwrap(), no_paths);
    for (outcome, reports) in [(Err(WriteError::Gone), 0), (Ok(Stored::Nothing), 1)] {
        let (mut restarts, mut index) = (Restarts::new(Some(park.clone()), false), index());
        restarts.handle(Event::ListStart, NOW.moment);
        restarts.handle(Event::ListEnd, NOW.moment);
        restarts.observe_parked(parked(0, PARK), NOW.moment);
        assert!(turn(&mut restarts, &mut index, NOW).is_empty());
        let later = Now {
            moment: Moment::after_start(Duration::from_secs(20)),
            ..NOW
        };
        let write = turn(&mut restarts, &mut index, later).remove(0);
        let Event::Applied(pod) = parked(0, PARK) else {
            unreachable!()
        };
        restarts.observe_parked(Event::Deleted(pod), later.moment);
        let notices = restarts.written(write, outcome, later.moment);
        assert_eq!(notices.len(), reports);
    }
}
