//! Two plots beside each other: pods swapped over time, and memory by pods.

use crate::judge::numbers::summary;
use crate::metrics::RSS;
use crate::options::Contestant;
use crate::report::table;
use crate::rows::Results;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const GAP: f64 = 90.0;
const TOP: f64 = 40.0;
const LEFT: f64 = 60.0;
/// Points of one curve: more than a screen shows add nothing.
const POINTS: usize = 200;
const CONTESTANTS: [(Contestant, &str); 4] = [
    (Contestant::Bare, "#888888"),
    (Contestant::Swaplet, "#0b6e4f"),
    (Contestant::Openkruise, "#c1440e"),
    (Contestant::OpenkruiseLifted, "#e8a33d"),
];

type Line = (Contestant, Vec<(f64, f64)>);

/// The plots as one SVG.
pub fn svg(results: &Results) -> String {
    let drains = drains(results);
    let memory = memory(results);
    let width = LEFT + 2.0 * WIDTH + GAP + 20.0;
    let height = TOP + HEIGHT + 90.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
        <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    text += &plot(
        LEFT,
        ("Pods swapped", "seconds since the first status write"),
        &drains,
    );
    text += &plot(
        LEFT + WIDTH + GAP,
        ("Resident memory in MB", "pods that wait"),
        &memory,
    );
    for (nth, (contestant, colour)) in CONTESTANTS.iter().enumerate() {
        let (x, y) = (LEFT + nth as f64 * 215.0, TOP + HEIGHT + 70.0);
        text += &format!(
            "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>",
            y - 6.0
        );
        text += &format!(
            "<text x=\"{}\" y=\"{y}\">{}</text>\n",
            x + 20.0,
            contestant.name()
        );
    }
    text + "</svg>\n"
}

/// The last run of each contestant with the most pods.
fn drains(results: &Results) -> Vec<Line> {
    let size = results
        .curves
        .iter()
        .map(|curve| curve.size)
        .max()
        .unwrap_or_default();
    let last = |contestant: Contestant| {
        results
            .curves
            .iter()
            .rev()
            .find(|curve| curve.contestant == contestant && curve.size == size)
    };
    let lines = CONTESTANTS
        .iter()
        .filter_map(|(contestant, _)| Some((*contestant, last(*contestant)?)));
    lines
        .map(|(contestant, curve)| {
            let step = curve.times.len().div_ceil(POINTS).max(1);
            let points = curve
                .times
                .iter()
                .enumerate()
                .filter(|(nth, _)| nth % step == 0 || nth + 1 == curve.times.len());
            (
                contestant,
                points
                    .map(|(nth, time)| (*time, (nth + 1) as f64))
                    .collect(),
            )
        })
        .collect()
}

fn memory(results: &Results) -> Vec<Line> {
    let sizes = table::sizes(&results.values);
    let of = |contestant: Contestant| {
        let points = sizes.iter().filter_map(|size| {
            let (median, _, _) = summary(&table::values(&results.values, *size, contestant, RSS))?;
            Some((*size as f64, median / 1e6))
        });
        points.collect::<Vec<_>>()
    };
    CONTESTANTS
        .iter()
        .map(|(contestant, _)| (*contestant, of(*contestant)))
        .filter(|(_, points)| !points.is_empty())
        .collect()
}

fn plot(left: f64, (title, below): (&str, &str), lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let most_x = points().map(|(x, _)| *x).fold(1e-9, f64::max);
    let most_y = points().map(|(_, y)| *y).fold(1e-9, f64::max);
    let bottom = TOP + HEIGHT;
    let mut text = format!(
        "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{title}</text><text x=\"{left}\" y=\"{}\">{below}</text>\n\
        <path d=\"M{left} {TOP}V{bottom}H{}\" fill=\"none\" stroke=\"black\"/>\n",
        TOP - 14.0,
        bottom + 38.0,
        left + WIDTH
    );
    for quarter in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (x, y) = (left + quarter * WIDTH, bottom - quarter * HEIGHT);
        text += &format!(
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            short(quarter * most_x)
        );
        text += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
            left - 6.0,
            y + 4.0,
            short(quarter * most_y)
        );
    }
    for (contestant, points) in lines {
        let colour = CONTESTANTS
            .iter()
            .find(|(one, _)| one == contestant)
            .map_or("black", |(_, colour)| colour);
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| {
                format!(
                    "{:.1},{:.1}",
                    left + x / most_x * WIDTH,
                    bottom - y / most_y * HEIGHT
                )
            })
            .collect();
        text += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
            path.join(" ")
        );
    }
    text
}

fn short(value: f64) -> String {
    if value >= 10.0 || value == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Curve;

    #[test]
    fn a_curve_goes_from_corner_to_corner_and_its_last_swap_is_on_it() {
        let times = (1..=1000).map(f64::from).collect();
        let curves = vec![Curve {
            size: 1000,
            contestant: Contestant::Swaplet,
            times,
        }];
        let results = Results {
            curves,
            ..Results::default()
        };
        let lines = drains(&results);
        assert_eq!(lines[0].1.last(), Some(&(1000.0, 1000.0)));
        assert!(lines[0].1.len() <= POINTS + 1);
        assert!(svg(&results).contains(&format!("{:.1},{:.1}\"", LEFT + WIDTH, TOP)));
    }
}
