//! The formats and columns of `kubectl`.

use jiff::Timestamp;

/// A column: name, type, format, and 1 if only `-o wide` shows it.
pub type Heading = (&'static str, &'static str, &'static str, u8);

/// Returns the age of a time, in `kubectl`'s format.
pub fn ago(now: Timestamp, time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.duration_since(time).as_secs()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Formats a duration like `kubectl`: two units at most, and one if the second would add nothing.
pub fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: &str, small: i64, part: &str| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{part}")
        }
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_kubectl_prints_them() {
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3600, "60m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (28_000_000, "324d"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }
}
