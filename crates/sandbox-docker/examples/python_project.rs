//! Runs the tests of a Python project in a container without network: everything it needs goes in, its report comes out.
//!
//! ```text
//! cargo run -p sandbox-docker --example python_project -- PROJECT WHEELS REPORT [IMAGE [LABEL]]
//! ```
//!
//! PROJECT is the project's directory, WHEELS one with the wheels of pytest and what it needs (`pip download pytest`), REPORT
//! the file that gets the report in JUnit's form. It ends with the exit code of the tests.

use sandbox::{Client, Command, Error, NetworkPolicy, ProcessEvent, Spec, Status};
use sandbox_docker::Docker;
use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

const TESTS: &str = "
python3 -m pip install --quiet --no-index --find-links /work/wheels --target /work/site pytest &&
exec python3 -m pytest -p no:cacheprovider --junitxml=/work/report.xml";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("{what} is missing"));
    let [project, wheels, report] = [next("PROJECT")?, next("WHEELS")?, next("REPORT")?].map(PathBuf::from);
    let image = next("IMAGE").unwrap_or_else(|_| "python:3.13-slim".into());
    let label = next("LABEL").unwrap_or_else(|_| "tests".into());

    let client = Client::new(Docker::plain())?;
    let spec = Spec::new()
        .image(image)
        .network(NetworkPolicy::Deny)
        .lifetime(Duration::from_secs(600))
        .label("python-project", label);
    let status = client
        .scope(spec, async |sandbox| {
            let files = sandbox.files();
            files.upload_dir(&project, "/work/project").await?;
            files.upload_dir(&wheels, "/work/wheels").await?;
            let tests = Command::shell(TESTS)
                .cwd("/work/project")
                .env("PYTHONPATH", "/work/site")
                .env("PYTHONUNBUFFERED", "1")
                .timeout(Duration::from_secs(300));
            let mut process = sandbox.start(tests).await?;
            let mut status = None;
            while let Some(event) = process.next().await? {
                // That nobody reads what is shown here is no reason to stop the tests.
                match event {
                    ProcessEvent::Stdout(bytes) => _ = io::stdout().write_all(&bytes),
                    ProcessEvent::Stderr(bytes) => _ = io::stderr().write_all(&bytes),
                    ProcessEvent::Exited(with) => status = Some(with),
                    _ => {}
                }
            }
            files.download("/work/report.xml", &report).await?;
            Ok::<_, Error>(status)
        })
        .await?;
    client.close().await?;
    let code = status.map_or(1, Status::as_code);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
