//! Watches a tar pass by for directories so deep that the engine cannot reach all that is in them: it leaves out, without a word, what
//! lies at paths longer than the kernel takes.

/// The kernel's `PATH_MAX` without its end mark.
const LONGEST_PATH: usize = 4095;
/// The kernel's `NAME_MAX`.
const LONGEST_NAME: usize = 255;
const BLOCK: usize = 512;
/// No path needs more; what is longer is skipped.
const LONGEST_EXTENSION: u64 = 64 << 10;

/// Fed with the pieces of a tar.
#[derive(Debug)]
pub(crate) struct Depth {
    /// The length of what comes before the names in the tar.
    above: usize,
    step: Step,
    /// What an extension says of the next member.
    path: Option<usize>,
    size: Option<u64>,
    reached: bool,
}

#[derive(Debug)]
enum Step {
    Header(Vec<u8>),
    /// The contents of an extension, and how long they are without their padding.
    Extension {
        kind: u8,
        data: Vec<u8>,
        size: usize,
    },
    Skip(u64),
}

impl Depth {
    /// For a tree that is at this absolute path.
    pub(crate) fn below(path: &str) -> Self {
        let above = path.trim_end_matches('/').rfind('/').map_or(0, |at| at + 1);
        Self { above, step: Step::Header(Vec::new()), path: None, size: None, reached: false }
    }

    /// Whether something may have been left out by now.
    pub(crate) fn is_reached(&mut self, mut piece: &[u8]) -> bool {
        while !piece.is_empty() && !self.reached {
            match &mut self.step {
                Step::Skip(left) => {
                    let part = usize::try_from(*left).unwrap_or(usize::MAX).min(piece.len());
                    piece = &piece[part..];
                    *left -= part as u64;
                    if *left == 0 {
                        self.step = Step::Header(Vec::new());
                    }
                }
                Step::Header(block) => {
                    piece = fill(block, BLOCK, piece);
                    if block.len() == BLOCK {
                        let block = std::mem::take(block);
                        self.header(&block);
                    }
                }
                Step::Extension { kind, data, size } => {
                    piece = fill(data, size.next_multiple_of(BLOCK), piece);
                    if data.len() == size.next_multiple_of(BLOCK) {
                        let (kind, data) = (*kind, data[..*size].to_vec());
                        self.step = Step::Header(Vec::new());
                        self.extension(kind, &data);
                    }
                }
            }
        }
        self.reached
    }

    fn header(&mut self, block: &[u8]) {
        let (kind, stated) = (block[156], number(&block[124..136]));
        if matches!(kind, b'x' | b'L') && (1..=LONGEST_EXTENSION).contains(&stated) {
            let size = usize::try_from(stated).unwrap_or_default();
            self.step = Step::Extension { kind, data: Vec::new(), size };
            return;
        }
        let (path, size) = (self.path.take(), self.size.take().unwrap_or(stated));
        if kind == b'5' {
            let own = text(&block[..100]) + if &block[257..262] == b"ustar" { text(&block[345..500]) + 1 } else { 0 };
            self.reached |= self.above + path.unwrap_or(own) + 1 + LONGEST_NAME > LONGEST_PATH;
        }
        let padded = size.checked_next_multiple_of(BLOCK as u64).unwrap_or(u64::MAX);
        // Links and directories state no contents, whatever their size says.
        self.step = match padded {
            1.. if matches!(kind, b'0' | 0 | b'7' | b'g' | b'x' | b'L' | b'K' | b'S') => Step::Skip(padded),
            _ => Step::Header(Vec::new()),
        };
    }

    fn extension(&mut self, kind: u8, data: &[u8]) {
        if kind == b'L' {
            self.path = Some(text(data));
            return;
        }
        // Records of the form `LENGTH NAME=VALUE\n`.
        let mut rest = data;
        while let Some(space) = rest.iter().position(|byte| *byte == b' ') {
            let length = std::str::from_utf8(&rest[..space]).ok().and_then(|length| length.parse::<usize>().ok());
            let Some((record, after)) =
                length.filter(|length| *length > space).and_then(|at| rest.split_at_checked(at))
            else {
                return;
            };
            let record = &record[space + 1..];
            let record = record.strip_suffix(b"\n").unwrap_or(record);
            if let Some(path) = record.strip_prefix(b"path=") {
                self.path = Some(path.strip_suffix(b"/").unwrap_or(path).len());
            } else if let Some(size) = record.strip_prefix(b"size=") {
                self.size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
            }
            rest = after;
        }
    }
}

/// Takes what is missing to `length`, and gives back the rest.
fn fill<'a>(into: &mut Vec<u8>, length: usize, piece: &'a [u8]) -> &'a [u8] {
    let (part, rest) = piece.split_at(piece.len().min(length - into.len()));
    into.extend_from_slice(part);
    rest
}

/// The length of a path that ends with a zero or its field.
fn text(field: &[u8]) -> usize {
    let length = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    field[..length].strip_suffix(b"/").unwrap_or(&field[..length]).len()
}

/// Octal digits, or a number of its own bytes where the first has its highest bit.
fn number(field: &[u8]) -> u64 {
    if field[0] & 0x80 != 0 {
        return field[4..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    }
    let digits = field.iter().filter(|byte| (b'0'..=b'7').contains(byte));
    digits.fold(0, |number, digit| number << 3 | u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(depth: usize) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut path = String::from("top");
        let mut add = |path: &str, kind, data: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(0o755);
            header.set_size(data.len() as u64);
            builder.append_data(&mut header, path, data).unwrap();
        };
        add("top/file", tar::EntryType::Regular, &[b'5'; 3000]);
        for _ in 0..depth {
            add(&path, tar::EntryType::Directory, b"");
            path.push_str("/dir");
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn only_trees_near_the_longest_path_are_told() {
        // The deepest directory has 3 + 4 * (depth - 1) bytes, and one before it.
        let deepest = |depth: usize| 1 + 3 + 4 * (depth - 1);
        for depth in [1, 100, 959, 960, 961, 1023] {
            let told = deepest(depth) + 1 + LONGEST_NAME > LONGEST_PATH;
            for size in [61, 512, 5000, usize::MAX] {
                let mut watch = Depth::below("/top");
                let all = tree(depth);
                let any = all.chunks(size.min(all.len())).any(|piece| watch.is_reached(piece));
                assert_eq!(any, told, "{depth} in pieces of {size}");
            }
        }
        assert!(!Depth::below("/top").is_reached(&tree(900)));
        assert!(Depth::below(&format!("{}/top", "/dir".repeat(100))).is_reached(&tree(900)));
    }

    #[test]
    fn records_of_an_extension() {
        let mut watch = Depth::below("/x");
        watch.extension(b'x', b"14 size=12345\n13 path=a/b/\n");
        assert_eq!((watch.path, watch.size), (Some(3), Some(12345)));
        for bad in [&b"99 path=a\n"[..], b" ", b"x path=a\n", b"0 path=a\n", b"3 \n"] {
            Depth::below("/x").extension(b'x', bad);
        }
    }
}
