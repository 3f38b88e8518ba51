//! Durations as Go writes them: Kubernetes prints them into messages and takes them in flags.

use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a duration like Go's `time.ParseDuration`, without a sign and without units below a
/// microsecond; one of more than a year is read as a year. `None` if it is none.
pub fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest[..number].parse().ok()?;
        rest = &rest[number..];
        let unit = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        total += value * seconds_of(&rest[..unit])?;
        rest = &rest[unit..];
    }
    if text.is_empty() {
        None
    } else {
        Duration::try_from_secs_f64(total)
            .ok()
            .map(|time| time.min(LONGEST))
    }
}

fn seconds_of(unit: &str) -> Option<f64> {
    match unit {
        "us" | "\u{b5}s" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let all = [
            ("1m30s", 90_000),
            ("200ms", 200),
            ("0", 0),
            ("1.5s", 1500),
            ("2h", 7_200_000),
            ("1500\u{b5}s", 1),
        ];
        assert!(
            all.iter()
                .all(|(text, millis)| duration(text).map(|time| time.as_millis()) == Some(*millis))
        );
        assert_eq!(
            duration("9999999999999h"),
            Some(LONGEST),
            "a10: whoever can write Events can write this"
        );
        assert!(
            ["", "5", "s", "1x", "-1s", "1s2"]
                .iter()
                .all(|text| duration(text).is_none())
        );
    }
}
