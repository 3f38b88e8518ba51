//! Tables like those of kubectl, whose cells may come from objects.

use std::fmt::Write;

use crate::is_invisible;

/// The gap between columns, as in kubectl.
const GAP: usize = 3;

/// The longest cell, in characters: values of objects have any length, and a line must be readable.
const CELL: usize = 200;
/// The longest last cell of a line, which may be whole sentences: as long as an Event.
const LAST_CELL: usize = 1024;

/// Returns `-` for an empty cell, so that columns can be counted.
pub fn dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

/// Aligns columns to their longest cells.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let most = |column: usize| {
        if column + 1 == columns {
            LAST_CELL
        } else {
            CELL
        }
    };
    let cells = |line: &Vec<String>| {
        line.iter()
            .enumerate()
            .map(|(column, cell)| shortened(&printable(cell), most(column)))
            .collect()
    };
    let lines: Vec<Vec<String>> = lines.iter().map(cells).collect();
    let length =
        |line: &Vec<String>, column: usize| line.get(column).map_or(0, |cell| cell.chars().count());
    let width = |column| {
        let lengths = lines.iter().map(|line| length(line, column));
        GAP + lengths.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut row = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(row, "{cell:width$}");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

fn shortened(cell: &str, most: usize) -> String {
    const MARK: &str = "...";
    if cell.chars().nth(most).is_none() {
        return cell.to_owned();
    }
    cell.chars()
        .take(most - MARK.len())
        .chain(MARK.chars())
        .collect()
}

/// Replaces control characters and invisible ones, because text from objects must not control the
/// terminal, nor make a line read differently.
pub fn printable(cell: &str) -> String {
    cell.replace(|sign: char| sign.is_control() || is_invisible(sign), "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a19_a_long_cell_is_cut_between_characters() {
        let line = |cell: String| vec![cell, "x".to_owned()];
        for length in [CELL, CELL + 1, 70_000, 1_300_000] {
            let text = aligned(&[line("NAME".to_owned()), line("\u{e9}".repeat(length))]);
            assert!(
                text.lines()
                    .all(|line| line.chars().count() <= CELL + GAP + 1),
                "{length}"
            );
            assert_eq!(text.contains("..."), length > CELL, "{length}");
            let text = aligned(&[vec!["a".repeat(length), "\u{e9}".repeat(length)]]);
            assert!(
                text.chars().count() <= CELL + GAP + LAST_CELL + 1,
                "{length}"
            );
        }
    }
}
