//! The goals, each reached or not by the medians of this run. Nothing fails by them.

use super::table::{median, sizes};
use crate::metrics::{
    BURST, CEILING, DRAIN_RATE, EVENTS, EVENTS_BEFORE, IDLE_REQUESTS, JOBS_AT_ONCE, Measurement,
    PATCHES, RELIST_PEAK, RSS, steady_p99,
};
use crate::options::Contestant::{self, Bare, Openkruise, OpenkruiseLifted, Swaplet};

struct Goal {
    words: &'static str,
    value: Option<f64>,
    reached: fn(f64) -> bool,
}

/// A table of goals for each size.
pub fn written(all: &[Measurement]) -> String {
    let mut text = String::from("## Goals\n\n| pods | goal | measured | |\n|---|---|---|---|\n");
    let sizes = sizes(all);
    for size in &sizes {
        for Goal {
            words,
            value,
            reached,
        } in goals(all, *size)
        {
            let Some(value) = value else { continue };
            let verdict = if reached(value) {
                "reached"
            } else {
                "not reached"
            };
            text += &format!("| {size} | {words} | {value:.2} | {verdict} |\n");
        }
    }
    for pair in sizes.windows(2) {
        if let Some(slope) = slope(all, Swaplet, pair[0], pair[1]) {
            let verdict = if slope <= 3.0 {
                "reached"
            } else {
                "not reached"
            };
            text += &format!(
                "| {} to {} | RSS: at most 3 kB per pod | {slope:.2} | {verdict} |\n",
                pair[0], pair[1]
            );
        }
    }
    text
}

/// Memory per pod between two sizes, in kB.
fn slope(all: &[Measurement], contestant: Contestant, small: usize, large: usize) -> Option<f64> {
    let (from, to) = (
        median(all, small, contestant, RSS)?,
        median(all, large, contestant, RSS)?,
    );
    Some((to - from) / (large - small) as f64 / 1e3)
}

fn goals(all: &[Measurement], size: usize) -> Vec<Goal> {
    let of = |contestant, name: &str| median(all, size, contestant, name);
    let own = |name: &str| of(Swaplet, name);
    let ratio = |over: Option<f64>, under: Option<f64>| Some(over? / under?);
    let goal = |words, value, reached| Goal {
        words,
        value,
        reached,
    };
    let p99 = steady_p99(100);
    let above = |other: Option<f64>| Some(own(&p99)? - other?);
    let mut goals = vec![
        goal(
            "burst: at least 0.9 of the ceiling, after the last status write",
            ratio(own(DRAIN_RATE), of(Bare, CEILING)),
            |value| value >= 0.9,
        ),
        goal(
            "burst: at least 0.9 times as fast as bare patches, in all",
            ratio(of(Bare, BURST), own(BURST)),
            |value| value >= 0.9,
        ),
        goal(
            "burst: at least 1.5 times as fast as OpenKruise with its throttle lifted",
            ratio(of(OpenkruiseLifted, BURST), own(BURST)),
            |value| value >= 1.5,
        ),
        goal(
            "burst: at least 10 times as fast as OpenKruise as shipped",
            ratio(of(Openkruise, BURST), own(BURST)),
            |value| value >= 10.0,
        ),
        goal(
            "patches of pods per pod: exactly 1.00",
            own(PATCHES),
            |value| value == 1.0,
        ),
        goal("Events per pod: at most 1.00", own(EVENTS), |value| {
            value <= 1.0
        }),
        goal(
            "Events sent while a swap waits: none",
            own(EVENTS_BEFORE),
            |value| value == 0.0,
        ),
        goal(
            "steady 100/s: p99 at most 50 ms above that of bare patches",
            above(of(Bare, &p99)),
            |value| value <= 50.0,
        ),
        goal(
            "jobs: at most 5 swaps of one Job under way, for backoffLimit 6",
            own(JOBS_AT_ONCE),
            |value| value <= 5.0,
        ),
        goal(
            "idle: no request but the Lease and watches",
            own(IDLE_REQUESTS),
            |value| value == 0.0,
        ),
        goal(
            "relist: peak at most 2.0 times the memory before",
            own(RELIST_PEAK),
            |value| value <= 2.0,
        ),
        goal(
            "RSS: at most a tenth of OpenKruise's as shipped",
            ratio(own(RSS), of(Openkruise, RSS)),
            |value| value <= 0.1,
        ),
    ];
    if size == 0 {
        goals.push(goal(
            "RSS without pods: at most 24 MB",
            own(RSS).map(|bytes| bytes / 1e6),
            |value| value <= 24.0,
        ));
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Unit, metric};

    fn value(size: usize, contestant: Contestant, name: &str, value: f64) -> Measurement {
        Measurement {
            size,
            contestant,
            metric: metric(name, Unit::Number),
            value,
        }
    }

    #[test]
    fn a_goal_is_judged_by_what_was_measured_and_left_out_where_nothing_was() {
        let text = written(&[
            value(10, Swaplet, PATCHES, 1.01),
            value(10, Swaplet, EVENTS, 1.0),
            value(10, Swaplet, DRAIN_RATE, 45.0),
            value(10, Bare, CEILING, 100.0),
        ]);
        assert!(
            text.contains("exactly 1.00 | 1.01 | not reached |"),
            "{text}"
        );
        assert!(text.contains("at most 1.00 | 1.00 | reached |"), "{text}");
        assert!(
            text.contains("after the last status write | 0.45 | not reached |"),
            "{text}"
        );
        assert!(!text.contains("OpenKruise"), "{text}");
    }

    #[test]
    fn memory_per_pod_is_the_slope_between_sizes() {
        let text = written(&[
            value(0, Swaplet, RSS, 20e6),
            value(1000, Swaplet, RSS, 22e6),
            value(2000, Swaplet, RSS, 26e6),
        ]);
        assert!(
            text.contains("| 0 | RSS without pods: at most 24 MB | 20.00 | reached |"),
            "{text}"
        );
        assert!(
            text.contains("| 0 to 1000 | RSS: at most 3 kB per pod | 2.00 | reached |"),
            "{text}"
        );
        assert!(
            text.contains("| 1000 to 2000 | RSS: at most 3 kB per pod | 4.00 | not reached |"),
            "{text}"
        );
    }
}
