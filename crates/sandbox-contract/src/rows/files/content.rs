//! Writing and reading.

use super::host::pattern;
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    measure,
    row::Done,
    rows::lifecycle::all,
};
use bytes::Bytes;
use sandbox::Body;
use sandbox_core::FileKind;
use std::cell::Cell;
use tokio::time::Instant;

pub(super) async fn come_back(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    let every: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let cases: [(&str, Vec<u8>); 5] = [
        ("text", "ünïcödé, two\nlines".into()),
        ("newline", "ends with one\n".into()),
        ("bytes", every),
        ("zeros", vec![0; 1000]),
        ("empty", Vec::new()),
    ];
    for (name, content) in &cases {
        files.write(*name, content.clone()).await?;
    }
    for (name, content) in &cases {
        expect_eq!(files.read(*name).await?, content, "the content of {name}");
        expect_eq!(files.stat(*name).await?.size, content.len() as u64, "the size of {name}");
        ensure!(files.exists(*name).await?, "{name} is not there");
    }
    expect_eq!(files.read_text("text").await?, "ünïcödé, two\nlines", "text");
    // Bytes that are no text are replaced in the view as text, and nowhere else.
    ensure!(files.read_text("bytes").await?.contains('\u{fffd}'), "the text view of bytes");
    ensure!(!files.exists("another").await?, "something is there that was never written");
    Ok(())
}

pub(super) async fn a_hundred_mib(cx: &Ctx) -> Done {
    const SIZE: usize = 100 << 20;
    let files = cx.sandbox().await?.files();
    let content = Bytes::from(pattern(SIZE, 1));
    files.write("large", content.clone()).await?;
    expect_eq!(files.stat("large").await?.size, SIZE as u64, "the size");
    let read = files.read("large").await?;
    ensure!(read == content, "{} bytes came back of {SIZE}, and not the same", read.len());
    drop(read);
    let mut body = files.open("large").await?;
    let mut at = 0;
    while let Some(piece) = body.next().await? {
        ensure!(content.get(at..at + piece.len()) == Some(&piece[..]), "other bytes in the piece at {at}");
        at += piece.len();
    }
    expect_eq!(at, SIZE, "bytes that came in pieces");
    let range = files.read_range("large", 70 << 20, 1000).await?;
    ensure!(range == content[70 << 20..(70 << 20) + 1000], "other bytes in a range");
    Ok(())
}

/// With 255 bytes, which is what file systems take.
fn odd() -> Vec<String> {
    let mut all: Vec<String> = [
        "two words",
        " blanks around ",
        "-dash",
        "--",
        "-rf",
        ".hidden",
        "...",
        "new\nline",
        "\nline",
        "line\n",
        "tab\tin",
        "ünïcödé",
        "日本語",
        "🦀",
        "'quotes'\"",
        "$HOME",
        "`id`",
        "$(id)",
        "a;b|c&d",
        "*",
        "[a]?",
        "back\\slash",
        "\\n",
        "%s%n",
        "a:b",
        "~",
        "#x",
        "a=b",
        "@c",
        "\u{1b}[31m",
    ]
    .map(str::to_string)
    .into();
    all.push("n".repeat(255));
    all.push("日".repeat(85));
    all
}

pub(super) async fn odd_names(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    files.make_dir("odd").await?;
    let mut names = odd();
    for name in &names {
        let path = format!("odd/{name}");
        files.write(&path, name.clone()).await?;
        expect_eq!(files.read_text(&path).await?, *name, "the content of {name:?}");
    }
    names.sort();
    let listed: Vec<_> = files.list("odd").await?.into_iter().map(|info| info.name).collect();
    expect_eq!(listed, names, "the listing");
    for name in ["new\nline", "-rf", "*", "日本語"] {
        let path = format!("odd/{name}");
        let info = files.stat(&path).await?;
        expect_eq!((&*info.name, info.kind, info.size), (name, FileKind::File, name.len() as u64), "stat of {name:?}");
        files.rename(&path, format!("odd/moved {name}")).await?;
        ensure!(!files.exists(&path).await?, "{name:?} is still there after it was moved");
        expect_eq!(files.read_text(format!("odd/moved {name}")).await?, name, "{name:?}, moved");
        files.remove(format!("odd/moved {name}")).await?;
    }
    expect_eq!(files.list("odd").await?.len(), names.len() - 4, "entries after four were removed");
    // A name like an option is a name in the working directory too.
    files.write("-rf", "plain").await?;
    expect_eq!(files.read_text("-rf").await?, "plain", "a file `-rf`");
    files.remove("-rf").await?;
    Ok(())
}

pub(super) async fn truncates(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    for size in [10, 5000, 100, 70_000, 1, 0, 300] {
        let content = pattern(size, size as u32);
        files.write("same", content.clone()).await?;
        expect_eq!(files.read("same").await?, content, "the content after a write of {size} bytes");
        expect_eq!(files.stat("same").await?.size, size as u64, "the size after a write of {size} bytes");
    }
    Ok(())
}

pub(super) async fn the_same_for_programs(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.write("by-files", "of files").await?;
    expect_eq!(cx.text(&sandbox, cx.probes().read_file("by-files")).await?, "of files", "what a program reads");
    cx.text(&sandbox, cx.probes().write_file("by-program", "of a program")).await?;
    expect_eq!(files.read_text("by-program").await?, "of a program", "what a program wrote");
    // A program may change what was written, and the other way round.
    let output = cx.run(&sandbox, cx.probes().bump("by-files")).await?;
    ensure!(output.success(), "a program cannot append to a file that was written: {output:?}");
    expect_eq!(files.read_text("by-files").await?, "of filesx", "after a program appended");
    files.write("by-program", "new").await?;
    expect_eq!(cx.text(&sandbox, cx.probes().read_file("by-program")).await?, "new", "what a program reads then");
    let absolute = format!("{}/by-files", sandbox.cwd().trim_end_matches('/'));
    expect_eq!(files.read_text(absolute).await?, "of filesx", "by its absolute path");
    Ok(())
}

pub(super) async fn a_range(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    let content = pattern(100_000, 7);
    files.write("ranged", content.clone()).await?;
    let size = content.len() as u64;
    for (offset, length) in [
        (0, 10),
        (0, size),
        (1, 1),
        (99_999, 1),
        (65_535, 3),
        (50_000, 1 << 40),
        (99_990, 100),
        (size, 5),
        (size + 9, 5),
        (7, 0),
    ] {
        let read = files.read_range("ranged", offset, length).await?;
        let from = usize::try_from(offset.min(size)).unwrap_or(0);
        let to = usize::try_from(offset.saturating_add(length).min(size)).unwrap_or(0).max(from);
        ensure!(
            read == content[from..to],
            "{length} bytes from {offset} on: {} bytes, expected {}",
            read.len(),
            to - from
        );
    }
    let missing = files.read_range("no-such-file", 0, 1).await;
    expect_kind!(missing, PathNotFound, "a range of a file that is not there");
    Ok(())
}

pub(super) async fn missing_parents(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    files.write("a/b c/d/file", "deep").await?;
    expect_eq!(files.read_text("a/b c/d/file").await?, "deep", "the file");
    expect_eq!(files.stat("a/b c").await?.kind, FileKind::Directory, "a parent");
    // Parents that are there stay as they are.
    files.write("a/b c/other", "beside").await?;
    expect_eq!(files.read_text("a/b c/d/file").await?, "deep", "the file, after another was written above it");
    let below = files.write("a/b c/other/file", "x").await;
    expect_kind!(below, NotADirectory, "a write below a file");
    expect_eq!(files.read_text("a/b c/other").await?, "beside", "the file in the way");
    Ok(())
}

pub(super) async fn concurrent_writes(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    // Of different lengths, so that a shorter one over a longer one shows.
    let contents: Vec<Bytes> =
        (0..8_usize).map(|n| vec![b'a' + n as u8; (256 << 10) + 1000 * (n * 5 % 8)].into()).collect();
    for _ in 0..3 {
        let writes = contents.iter().map(|content| Box::pin(files.write("one", content.clone()))).collect();
        for written in cx.within(60, "eight writes at once", all(writes)).await? {
            written?;
        }
        let read = files.read("one").await?;
        let whole = contents.contains(&read);
        ensure!(
            whole,
            "what is left is none of the eight: {} bytes, first {:?}, last {:?}",
            read.len(),
            read.first(),
            read.last()
        );
    }
    Ok(())
}

pub(super) async fn the_old_or_the_new(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    let contents: Vec<Bytes> = vec![vec![b'o'; 2 << 20].into(), vec![b'n'; 1 << 20].into()];
    files.write("whole", contents[0].clone()).await?;
    let (mut olds, mut news, reads) = (0, 0, Cell::new(0));
    let until = Instant::now() + cx.secs(60);
    let writes = async {
        // Writes may be quicker than reads: they go on until some reads have come between them.
        let mut turn = 0;
        while turn < 20 || (reads.get() < 3 && Instant::now() < until) {
            turn += 1;
            files.write("whole", contents[turn % 2].clone()).await?;
        }
        Ok::<_, crate::row::Stop>(())
    };
    let mut writes = Box::pin(writes);
    loop {
        let read = Box::pin(files.read("whole"));
        // A read goes on while the writes do.
        let read = tokio::select! {
            biased;
            done = &mut writes => { done?; break }
            read = read => read?,
        };
        reads.set(reads.get() + 1);
        match contents.iter().position(|content| *content == read) {
            Some(0) => olds += 1,
            Some(_) => news += 1,
            None => fail!(
                "a reader saw {} bytes from {:?} to {:?}: neither old nor new",
                read.len(),
                read.first(),
                read.last()
            ),
        }
    }
    cx.note(format_args!("{olds} reads of the old, {news} of the new"));
    ensure!(olds + news > 0, "no read came between the writes, so nothing was seen");
    Ok(())
}

pub(super) async fn memory_up(cx: &Ctx) -> Done {
    measure::bounded(cx, measure::Job::Upload).await
}

pub(super) async fn memory_down(cx: &Ctx) -> Done {
    measure::bounded(cx, measure::Job::Download).await
}

/// A body in pieces, of a stated length or none.
pub(super) fn pieces(pieces: Vec<Bytes>, len: Option<u64>) -> Body {
    struct Pieces(std::vec::IntoIter<Bytes>);
    impl sandbox::Chunks for Pieces {
        async fn next(&mut self) -> sandbox::Result<Option<Bytes>> {
            Ok(self.0.next())
        }
    }
    Body::new(len, Pieces(pieces.into_iter()))
}
