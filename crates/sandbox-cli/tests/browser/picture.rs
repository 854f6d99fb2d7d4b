//! What is in a picture.

use std::collections::BTreeSet;

/// Pixels, red, green and blue.
pub(crate) struct Picture {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    pub(crate) fn read(png: &[u8]) -> Self {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
        decoder.set_transformations(png::Transformations::normalize_to_color8() | png::Transformations::ALPHA);
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!(info.color_type, png::ColorType::Rgba);
        let pixels = bytes[..info.buffer_size()].chunks(4).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Self { width: info.width, height: info.height, pixels }
    }

    /// From 0, black, to 1, white.
    pub(crate) fn brightness(&self) -> f64 {
        self.pixels.iter().map(grey).sum::<f64>() / self.pixels.len() as f64
    }

    pub(crate) fn colours(&self) -> usize {
        self.pixels.iter().collect::<BTreeSet<_>>().len()
    }

    /// How much of a rectangle (x, y, width, height) is filled, by brightness alone: its upper left corner is empty, and what
    /// stands out most from it is full.
    pub(crate) fn filled(&self, [x, y, width, height]: &[f64; 4]) -> f64 {
        let at = |x: f64, y: f64| grey(&self.pixels[y as usize * self.width as usize + x as usize]);
        let ground = at(*x, *y);
        let (columns, rows) = (*width as u32, *height as u32);
        let points = (0..rows).flat_map(|row| (0..columns).map(move |column| (f64::from(column), f64::from(row))));
        let inks: Vec<f64> = points.map(|(dx, dy)| (at(x + dx, y + dy) - ground).abs()).collect();
        let most = inks.iter().copied().fold(0.0, f64::max);
        assert!(most > 0.2, "nothing is seen there: {most}");
        inks.iter().sum::<f64>() / (most * inks.len() as f64)
    }
}

fn grey([red, green, blue]: &[u8; 3]) -> f64 {
    (0.2126 * f64::from(*red) + 0.7152 * f64::from(*green) + 0.0722 * f64::from(*blue)) / 255.0
}
