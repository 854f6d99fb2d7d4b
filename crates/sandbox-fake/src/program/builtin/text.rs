//! `echo`, `printf`, `cat`, `tee`, `head`, `wc`, `yes`.

use super::{Proc, Set, complain, usage};
use crate::fs::Device;
use bytes::Bytes;
use std::io;

pub(super) fn add(set: &mut Set) {
    set.add("echo", |p| async move {
        let args = p.argv().get(1..).unwrap_or_default();
        let (args, end) = match args.split_first() {
            Some((first, rest)) if first == "-n" => (rest, ""),
            _ => (args, "\n"),
        };
        p.print(args.join(" ") + end).await;
        0
    });
    set.add("printf", |p| async move {
        match p.argv().split_first() {
            Some((_, [format, args @ ..])) => {
                p.print(formatted(format, args)).await;
                0
            }
            _ => usage(&p, "printf FORMAT [ARGUMENT]…").await,
        }
    });
    set.add("cat", |p| async move {
        let mut code = 0;
        let files = p.argv().get(1..).filter(|files| !files.is_empty()).map(<[String]>::to_vec);
        for file in files.unwrap_or_else(|| vec!["-".into()]) {
            if let Err(error) = copy(&p, &file, u64::MAX).await {
                code = complain(&p, &error.to_string()).await;
            }
        }
        code
    });
    set.add("tee", |p| async move {
        let mut code = 0;
        for file in p.argv().iter().skip(1) {
            if let Err(error) = p.write_file(file, "") {
                code = complain(&p, &error.to_string()).await;
            }
        }
        loop {
            let piece = p.read().await;
            if piece.is_empty() {
                return code;
            }
            for file in p.argv().iter().skip(1) {
                if let Err(error) = p.append(file, piece.clone()) {
                    code = complain(&p, &error.to_string()).await;
                }
            }
            p.print(&piece).await;
        }
    });
    set.add("head", |p| async move {
        let (bytes, lines, file) = match p.argv() {
            [_, option, count, rest @ ..] if option == "-c" => (count.parse().ok(), None, rest.first()),
            [_, option, count, rest @ ..] if option == "-n" => (None, count.parse().ok(), rest.first()),
            [_, rest @ ..] => (None, Some(10), rest.first()),
            [] => (None, None, None),
        };
        let file = file.map_or("-", |file| file);
        match (bytes, lines) {
            (Some(bytes), _) => match copy(&p, file, bytes).await {
                Ok(()) => 0,
                Err(error) => complain(&p, &error.to_string()).await,
            },
            (None, Some(lines)) => head(&p, file, lines).await,
            (None, None) => usage(&p, "head [-c BYTES | -n LINES] [FILE]").await,
        }
    });
    set.add("wc", |p| async move {
        let option = p.arg(1).filter(|option| option.starts_with('-'));
        let file = p.arg(if option.is_some() { 2 } else { 1 });
        let counted = match file {
            Some(file) => match p.read_file(file) {
                Ok(all) => count([0; 3], &mut false, &all),
                Err(error) => return complain(&p, &error.to_string()).await,
            },
            None => {
                let (mut counted, mut inside) = ([0; 3], false);
                loop {
                    let piece = p.read().await;
                    if piece.is_empty() {
                        break counted;
                    }
                    counted = count(counted, &mut inside, &piece);
                }
            }
        };
        let [lines, words, bytes] = counted;
        let text = match option {
            Some("-l") => format!("{lines}\n"),
            Some("-w") => format!("{words}\n"),
            Some("-c") => format!("{bytes}\n"),
            None => format!("{lines} {words} {bytes}\n"),
            Some(_) => return usage(&p, "wc [-l | -w | -c] [FILE]").await,
        };
        p.print(text).await;
        0
    });
    set.add("yes", |p| async move {
        let line = match p.argv() {
            [_] | [] => "y\n".to_string(),
            [_, words @ ..] => words.join(" ") + "\n",
        };
        let piece = Bytes::from(line.repeat((4096 / line.len()).max(1)));
        while p.write(piece.clone()).await.is_ok() {}
        1
    });
}

/// Copies at most so many bytes of a file, or with `-` of stdin, to stdout.
async fn copy(p: &Proc, file: &str, most: u64) -> io::Result<()> {
    let mut left = most;
    if file == "-" {
        while left > 0 {
            let piece = p.read_at_most(usize::try_from(left).unwrap_or(usize::MAX).min(64 << 10)).await;
            if piece.is_empty() {
                break;
            }
            left -= piece.len() as u64;
            p.write(piece).await?;
        }
        return Ok(());
    }
    match p.open(file)? {
        Ok(content) => {
            for piece in content.range(0, Some(most)).into_pieces() {
                p.write(piece).await?;
            }
        }
        Err(Device::Null) => {}
        Err(Device::Zero) => {
            let zeroes = Bytes::from_static(&[0; 64 << 10]);
            while left > 0 {
                let piece = zeroes.slice(..usize::try_from(left).unwrap_or(usize::MAX).min(zeroes.len()));
                left -= piece.len() as u64;
                p.write(piece).await?;
            }
        }
    }
    Ok(())
}

async fn head(p: &Proc, file: &str, lines: u64) -> i32 {
    if file != "-" {
        let all = match p.read_file(file) {
            Ok(all) => all,
            Err(error) => return complain(p, &error.to_string()).await,
        };
        let lines = usize::try_from(lines).unwrap_or(usize::MAX);
        p.print(all.split_inclusive(|byte| *byte == b'\n').take(lines).collect::<Vec<_>>().concat()).await;
        return 0;
    }
    for _ in 0..lines {
        let line = p.read_line().await;
        if line.is_empty() {
            break;
        }
        p.print(&line).await;
    }
    0
}

/// Lines, words, bytes so far, with a piece more.
fn count([mut lines, mut words, bytes]: [u64; 3], inside: &mut bool, piece: &[u8]) -> [u64; 3] {
    for byte in piece {
        lines += u64::from(*byte == b'\n');
        let word = !byte.is_ascii_whitespace();
        words += u64::from(word && !*inside);
        *inside = word;
    }
    [lines, words, bytes + piece.len() as u64]
}

/// What `printf` makes of its arguments: `%s`, `%d`, `%%` and the usual escapes, the format again while arguments are left.
fn formatted(format: &str, args: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut args = args.iter().peekable();
    loop {
        let before = args.len();
        let mut rest = format.bytes().peekable();
        while let Some(byte) = rest.next() {
            match byte {
                b'%' => match rest.next() {
                    Some(b's' | b'd' | b'i') => out.extend(args.next().map_or(&b""[..], |arg| arg.as_bytes())),
                    Some(b'%') | None => out.push(b'%'),
                    Some(other) => out.extend([b'%', other]),
                },
                b'\\' => match rest.next() {
                    Some(b'n') => out.push(b'\n'),
                    Some(b't') => out.push(b'\t'),
                    Some(b'r') => out.push(b'\r'),
                    Some(b'\\') | None => out.push(b'\\'),
                    Some(first @ b'0'..=b'7') => {
                        let mut value = u32::from(first - b'0');
                        for _ in 0..2 {
                            match rest.next_if(|digit| (b'0'..=b'7').contains(digit)) {
                                Some(digit) => value = value * 8 + u32::from(digit - b'0'),
                                None => break,
                            }
                        }
                        // As there: the low eight bits.
                        out.push(value as u8);
                    }
                    Some(other) => out.extend([b'\\', other]),
                },
                other => out.push(other),
            }
        }
        if args.peek().is_none() || args.len() == before {
            return out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::formatted;

    #[test]
    fn printf_formats() {
        let args = |all: &[&str]| all.iter().map(|arg| arg.to_string()).collect::<Vec<_>>();
        assert_eq!(formatted("%s=%d\\n", &args(&["a", "1", "b", "2"])), b"a=1\nb=2\n");
        assert_eq!(formatted("100%%\\000\\377\\t", &[]), b"100%\0\xff\t");
        assert_eq!(formatted("x", &args(&["unused"])), b"x");
        assert_eq!(formatted("[%s]", &[]), b"[]");
    }
}
