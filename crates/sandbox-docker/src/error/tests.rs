use super::*;

fn refused(status_code: u16, message: &str, meaning: Meaning) -> ErrorKind {
    let error = fault("doing it", meaning, Wire::DockerResponseServerError { status_code, message: message.into() });
    assert!(error.message().starts_with("doing it: "), "{error}");
    error.kind()
}

#[test]
fn refusals_map() {
    use ErrorKind as K;
    let table: &[(u16, &str, Meaning, ErrorKind)] = &[
        (404, "No such image: nope:latest", Meaning::CREATE, K::ImageNotFound),
        (404, "No such container: x", Meaning::EXEC, K::Gone),
        (404, "No such container: x", Meaning::FILES, K::Gone),
        (404, "Could not find the file /nope in container x", Meaning::FILES, K::PathNotFound),
        (404, "something", Meaning::ATTACH, K::NotFound),
        (
            409,
            "Conflict. The container name \"/x\" is already in use by container \"y\".",
            Meaning::CREATE,
            K::AlreadyExists,
        ),
        (409, "Container x is not running", Meaning::EXEC, K::Gone),
        (409, "Container x is paused, unpause the container before exec", Meaning::EXEC, K::WrongState),
        (500, "can only create exec sessions on running containers: container state improper", Meaning::EXEC, K::Gone),
        (400, "Minimum memory limit allowed is 6MB", Meaning::CREATE, K::InvalidArgument),
        (400, "Unknown runtime specified nope", Meaning::CREATE, K::Unsupported),
        (500, "container create: opening seccomp profile failed: open {\n", Meaning::CREATE, K::Unsupported),
        (500, "unlinkat /etc/hosts: device or resource busy", Meaning::FILES, K::PermissionDenied),
        (500, "unlinkat /etc/hosts: device or resource busy", Meaning::DESTROY, K::TeardownFailed),
        (500, "extraction point is not a directory", Meaning::FILES, K::NotADirectory),
        (500, "container rootfs is marked read-only", Meaning::FILES, K::ReadOnly),
        (
            500,
            "Error processing tar file(exit status 1): write /x: no space left on device",
            Meaning::FILES,
            K::DiskFull,
        ),
        (400, "cannot overwrite directory \"/a\" with non-directory \"/b\"", Meaning::FILES, K::IsADirectory),
        (400, "cannot overwrite non-directory \"/a\" with directory \"/b\"", Meaning::FILES, K::NotADirectory),
        (
            500,
            "could not find an available, non-overlapping IPv4 address pool among the defaults",
            Meaning::CREATE,
            K::Capacity,
        ),
        (500, "all predefined address pools have been fully subnetted", Meaning::CREATE, K::Capacity),
        (500, "driver failed to remove root filesystem", Meaning::DESTROY, K::TeardownFailed),
        (500, "Cannot mkdir: /etc/passwd is not a directory", Meaning::START, K::NotADirectory),
        (500, "boom", Meaning::CREATE, K::CreateFailed),
        (503, "boom", Meaning::CREATE, K::Unavailable),
        (429, "boom", Meaning::IMAGE, K::RateLimited),
    ];
    for (status, message, meaning, kind) in table {
        assert_eq!(refused(*status, message, *meaning), *kind, "{status} {message}");
    }
}

#[test]
fn a_connection_that_broke_may_have_applied_and_one_never_made_did_not() {
    let broken = fault("x", Meaning::EXEC, Wire::IOError { err: std::io::ErrorKind::BrokenPipe.into() });
    assert_eq!((broken.kind(), broken.may_have_applied()), (ErrorKind::ConnectionLost, true));
    let never = fault("x", Meaning::EXEC, Wire::SocketNotFoundError("/x".into()));
    assert_eq!((never.kind(), never.may_have_applied()), (ErrorKind::Unavailable, false));
    assert_eq!(fault("x", Meaning::EXEC, Wire::RequestTimeoutError).kind(), ErrorKind::OperationTimeout);
}

#[test]
fn texts_of_failed_starts_map() {
    use ErrorKind as K;
    const RUNC: &str = "OCI runtime exec failed: exec failed: unable to start container process: ";
    let table: &[(&str, ErrorKind)] = &[
        ("exec: \"nope\": executable file not found in $PATH: unknown", K::ProgramNotFound),
        ("exec: \"/nope\": stat /nope: no such file or directory: unknown", K::ProgramNotFound),
        ("exec: \"/etc/passwd\": permission denied: unknown", K::StartFailed),
        ("exec: \"/etc\": is a directory: unknown", K::StartFailed),
        ("chdir to cwd (\"/nope\") set in config.json failed: no such file or directory: unknown", K::PathNotFound),
        ("chdir to cwd (\"/etc/passwd\") set in config.json failed: not a directory: unknown", K::NotADirectory),
        ("chdir to cwd (\"/root\") set in config.json failed: permission denied: unknown", K::StartFailed),
        ("argument list too long: unknown", K::ArgumentTooLarge),
    ];
    for (text, kind) in table {
        let error = not_started(&format!("{RUNC}{text}\r\n"), "p", Some("/somewhere"), None);
        assert_eq!(error.kind(), *kind, "{text}");
        assert!(!error.may_have_applied(), "{text}");
    }
    let user = not_started("unable to find user nope: no matching entries in passwd file", "p", None, Some("nope"));
    assert_eq!(user.kind(), K::InvalidArgument);
    assert!(user.message().contains("nope"));
}
