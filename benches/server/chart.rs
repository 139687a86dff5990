//! The chart: horizontal bars with their names and values.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// One bar.
pub struct Bar<'a> {
    /// To its left.
    pub name: &'a str,
    /// Its length, and the number to its right.
    pub value: f64,
    /// Whether it stands for redis-rl.
    pub ours: bool,
}

/// Sizes in pixels.
const WIDTH: i32 = 860;
const HEAD: i32 = 44;
const ROW: i32 = 26;
const LEFT: i32 = 240;
const RIGHT: i32 = 80;
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
const THEIRS: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);

/// An SVG of all bars, from one common zero.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let rows = i32::try_from(bars.len()).expect("a few bars");
    let height = HEAD + ROW * rows + 12;
    let mut svg = String::new();
    let size = [WIDTH, height].map(|pixels| u32::try_from(pixels).expect("a positive size"));
    draw(&mut svg, (size[0], size[1]), title, bars).expect("a string takes whatever is drawn");
    // Readers of the page may have a dark one: the chart brings its own paper.
    svg
}

fn draw(
    svg: &mut String,
    size: (u32, u32),
    title: &str,
    bars: &[Bar],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    let style = |size: i32, at: HPos| {
        let font = ("sans-serif", size).into_font();
        TextStyle::from(font).color(&INK).pos(Pos::new(at, VPos::Center))
    };
    area.draw(&Text::new(title.to_owned(), (16, HEAD / 2), style(17, HPos::Left)))?;
    let longest = bars.iter().map(|bar| bar.value).fold(1.0, f64::max);
    let room = f64::from(WIDTH - LEFT - RIGHT);
    for (bar, row) in bars.iter().zip(0..) {
        let top = HEAD + ROW * row;
        let middle = top + ROW / 2;
        // Rounded to the pixel, at most the room that there is.
        let length = (bar.value / longest * room).round() as i32;
        let color = if bar.ours { OURS } else { THEIRS };
        area.draw(&Rectangle::new(
            [(LEFT, top + 4), (LEFT + length, top + ROW - 4)],
            color.filled(),
        ))?;
        let name = bar.name.to_owned();
        area.draw(&Text::new(name, (LEFT - 8, middle), style(14, HPos::Right)))?;
        let value = super::markdown::count(bar.value);
        area.draw(&Text::new(value, (LEFT + length + 6, middle), style(14, HPos::Left)))?;
    }
    area.present()?;
    Ok(())
}
