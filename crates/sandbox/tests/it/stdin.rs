//! Input, at the program's pace.

use crate::common::{Host, LONG, ms, spawn};
use sandbox::{Command, ErrorKind, ProcessEvent};

#[tokio::test]
async fn input_known_before_goes_whole() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    let output = sandbox.run(Command::new("cat").input("whole")).await.unwrap();
    assert_eq!(output.stdout.head, "whole");
    assert_eq!(sandbox.run(Command::new("cat")).await.unwrap().stdout.head, "", "nothing is the end of file at once");
    let much = vec![b'x'; 3 << 20];
    assert_eq!(sandbox.run(Command::new("wc").arg("-c").input(much)).await.unwrap().stdout.text().trim(), "3145728");
}

#[tokio::test]
async fn input_is_written_while_output_is_read() {
    let host = Host::new();
    let mut process = host.sandbox().await.start(Command::new("cat").pipe()).await.unwrap();
    let input = process.take_input().unwrap();
    let writer = spawn(async move {
        for _ in 0..8 {
            input.write(vec![b'x'; 3 << 20]).await.unwrap();
        }
    });
    let mut read = 0;
    while let Some(event) = process.next().await.unwrap() {
        read += if let ProcessEvent::Stdout(bytes) = event { bytes.len() } else { 0 };
    }
    writer.await.unwrap();
    assert_eq!(read, 24 << 20);
}

#[tokio::test]
async fn a_program_that_does_not_read_makes_the_writer_wait_and_a_given_up_write_sends_nothing() {
    let host = Host::new();
    let mut process = host.sandbox().await.start(Command::shell("sleep 1; wc -c").pipe()).await.unwrap();
    let mut sent = 0;
    while tokio::time::timeout(ms(100), process.write(vec![b'x'; 1 << 20])).await.is_ok() {
        sent += 1 << 20;
    }
    assert!(sent < 4 << 20, "{sent}");
    process.close_stdin();
    let error = process.write("x").await.unwrap_err();
    assert!(error.kind() == ErrorKind::WrongState && error.hint().is_some(), "{error:?}");
    let Some(ProcessEvent::Stdout(count)) = process.next().await.unwrap() else { panic!("no count") };
    assert_eq!(String::from_utf8_lossy(&count).trim().parse::<usize>().unwrap(), sent);
}

#[tokio::test]
async fn a_program_that_closes_its_input_ends_the_writing() {
    let host = Host::new();
    let process = host.sandbox().await.start(Command::shell("exec 0<&-; sleep 30").pipe()).await.unwrap();
    let wait = async {
        loop {
            if let Err(error) = process.write("x").await {
                break error;
            }
            tokio::time::sleep(ms(10)).await;
        }
    };
    let error = tokio::time::timeout(LONG, wait).await.unwrap();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::ConnectionLost, Some("write")));
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn a_stdin_that_nobody_can_write_to_is_closed() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    let cat = || Command::new("cat").pipe().timeout(LONG);
    assert_eq!(sandbox.run(cat()).await.unwrap().stdout.head, "");
    let mut process = sandbox.start(cat()).await.unwrap();
    process.write("given").await.unwrap();
    assert_eq!(process.output().await.unwrap().stdout.head, "given");
    let mut process = sandbox.start(cat()).await.unwrap();
    assert!(process.wait().await.is_ok());
}
