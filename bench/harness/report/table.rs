//! Rows by contestants: the median, with the smallest and the largest, and the ratio to swaplet's.

use crate::judge::numbers::summary;
use crate::metrics::{Measurement, Metric};
use crate::options::Contestant;

/// What was measured in one cell.
pub fn values(all: &[Measurement], size: usize, contestant: Contestant, name: &str) -> Vec<f64> {
    let cell = all
        .iter()
        .filter(|one| one.size == size && one.contestant == contestant && one.metric.name == name);
    cell.map(|one| one.value).collect()
}

/// The order of the groups of rows: as a controller lives.
const GROUPS: [&str; 9] = [
    "ceiling", "start", "idle", "noise", "relist", "restart", "steady", "jobs", "burst",
];

fn group(metric: &Metric) -> usize {
    let name = metric.name.split([':', ' ']).next();
    GROUPS
        .iter()
        .position(|group| Some(*group) == name)
        .unwrap_or(GROUPS.len())
}

/// The median of a cell.
pub fn median(all: &[Measurement], size: usize, contestant: Contestant, name: &str) -> Option<f64> {
    Some(summary(&values(all, size, contestant, name))?.0)
}

/// Values without those that have been there before.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut seen, value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
        seen
    })
}

/// The sizes that were measured, the smallest first.
pub fn sizes(all: &[Measurement]) -> Vec<usize> {
    let mut sizes = distinct(all.iter().map(|one| one.size));
    sizes.sort_unstable();
    sizes
}

/// A table for each size.
pub fn tables(all: &[Measurement]) -> String {
    sizes(all)
        .into_iter()
        .map(|size| table(all, size))
        .collect()
}

fn table(all: &[Measurement], size: usize) -> String {
    let of_size = || all.iter().filter(move |one| one.size == size);
    let mut contestants = distinct(of_size().map(|one| one.contestant));
    contestants.sort_unstable();
    let mut metrics = distinct(of_size().map(|one| one.metric.clone()));
    metrics.sort_by_key(group);
    let heads: Vec<&str> = contestants
        .iter()
        .map(|contestant| contestant.name())
        .collect();
    let mut text = format!(
        "## {size} pods\n\n| | {} |\n|---|{}\n",
        heads.join(" | "),
        "---|".repeat(heads.len())
    );
    for metric in &metrics {
        let cells: Vec<String> = contestants
            .iter()
            .map(|contestant| cell(all, size, *contestant, metric))
            .collect();
        text += &format!("| {} | {} |\n", metric.name, cells.join(" | "));
    }
    text + "\n"
}

fn cell(all: &[Measurement], size: usize, contestant: Contestant, metric: &Metric) -> String {
    let Some((middle, smallest, largest)) = summary(&values(all, size, contestant, &metric.name))
    else {
        return "-".to_owned();
    };
    let write = |value| metric.unit.write(value);
    let range = if smallest == largest {
        String::new()
    } else {
        format!(" ({} to {})", write(smallest), write(largest))
    };
    let own = median(all, size, Contestant::Swaplet, &metric.name)
        .filter(|own| *own > 0.0 && middle > 0.0 && contestant != Contestant::Swaplet);
    let ratio = own.map_or_else(String::new, |own| format!(", {:.2} x", middle / own));
    write(middle) + &range + &ratio
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Unit, metric};

    fn value(contestant: Contestant, value: f64) -> Measurement {
        Measurement {
            size: 10,
            contestant,
            metric: metric("row", Unit::Seconds),
            value,
        }
    }

    #[test]
    fn a_cell_has_the_median_both_ends_and_the_ratio_to_swaplet() {
        let all = [
            value(Contestant::Swaplet, 2.0),
            value(Contestant::Openkruise, 9.0),
            value(Contestant::Openkruise, 3.0),
            value(Contestant::Openkruise, 5.0),
        ];
        let text = tables(&all);
        assert!(
            text.contains("| row | 2.00 s | 5.00 s (3.00 s to 9.00 s), 2.50 x |"),
            "{text}"
        );
    }

    #[test]
    fn what_was_not_measured_has_no_value() {
        let mut other = value(Contestant::Bare, 1.0);
        other.metric.name = "other".to_owned();
        let text = tables(&[value(Contestant::Swaplet, 2.0), other]);
        assert!(
            text.contains("| row | - | 2.00 s |") && text.contains("| other | 1.00 s | - |"),
            "{text}"
        );
    }
}
