//! Tables, numbers and marked places of a page.

/// A table, its cells padded so that the text is readable as it is.
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&heads]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(column, &width)| match column {
            0 => "-".repeat(width),
            _ => format!("{}:", "-".repeat(width.max(2) - 1)),
        })
        .collect();
    [&heads, &rule].into_iter().chain(rows).map(|row| line(row, &widths)).collect()
}

/// One row: words to the left in the first column, figures to the right in the others.
fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::from("|");
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        match column {
            0 => line.push_str(&format!(" {cell:width$} |")),
            _ => line.push_str(&format!(" {cell:>width$} |")),
        }
    }
    line.push('\n');
    line
}

/// A whole number with commas.
pub fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A number to the precision that a noisy machine allows.
pub fn figure(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => count(number),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// [`figure`], or a dash where nothing was measured.
pub fn maybe(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), figure)
}

/// The page with what stands between the two marks replaced; none where a mark is missing.
pub fn replaced(page: &str, begin: &str, end: &str, with: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{}\n{end}{after}", with.trim_end()))
}
