use super::*;
use tempfile::TempDir;

struct Place {
    around: Surroundings,
    _folder: TempDir,
    home: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir_all(&home).unwrap();
    let variables = [("HOME".to_string(), home.to_str().unwrap().to_string())].into();
    Place { around: Surroundings { variables, root: folder.path().join("root") }, home, _folder: folder }
}

impl Place {
    fn set(mut self, name: &str, value: &str) -> Self {
        self.around.variables.insert(name.into(), value.into());
        self
    }

    fn file(self, below_home: &str, text: &str) -> Self {
        write(&self.home.join(below_home), text);
        self
    }

    fn engine(self) -> Self {
        write(&self.around.root.join("var/run/docker.sock"), "");
        self
    }

    fn context(self, folder: &str, name: &str, host: &str) -> Self {
        let meta = serde_json::json!({"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host}}});
        self.file(&format!(".docker/contexts/meta/{folder}/meta.json"), &meta.to_string())
    }

    fn resolve(&self, target: Option<Target>) -> Result<Found> {
        resolve(target.as_ref(), &self.around)
    }

    fn address(&self) -> String {
        self.resolve(None).unwrap().address.to_string()
    }

    fn missing(&self) -> Error {
        let error = self.resolve(None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BackendMissing, "{error}");
        assert!(error.hint().is_some(), "{error}");
        error
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn each_source_goes_before_the_next() {
    let all = place()
        .engine()
        .file(".docker/config.json", r#"{"currentContext":"current"}"#)
        .context("a", "current", "unix:///current.sock")
        .context("b", "named", "tcp://named:2375");
    assert_eq!(all.address(), "unix:///current.sock");
    let all = all.set("DOCKER_CONTEXT", "named");
    assert_eq!(all.address(), "tcp://named:2375");
    let all = all.set("DOCKER_HOST", "unix:///host.sock");
    assert_eq!(all.address(), "unix:///host.sock");
    let context = all.resolve(Some(Target::Context("current".into()))).unwrap();
    assert_eq!(context.address.to_string(), "unix:///current.sock");
    let host = all.resolve(Some(Target::Host("tcp://explicit".into()))).unwrap();
    assert_eq!(host.address.to_string(), "tcp://explicit:2375");
}

#[test]
fn a_named_context_that_is_missing_is_an_error_although_an_engine_is_there() {
    assert!(place().engine().set("DOCKER_CONTEXT", "nope").missing().message().contains("nope"));
    let current = place().engine().file(".docker/config.json", r#"{"currentContext":"nope"}"#);
    assert!(current.missing().message().contains("nope"));
    let error = place().engine().resolve(Some(Target::Context("nope".into()))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BackendMissing);
}

#[test]
fn a_configuration_that_cannot_be_read_is_an_error() {
    place().engine().file(".docker/config.json", "{").missing();
    place().engine().set("DOCKER_CONTEXT", "x").file(".docker/contexts/meta/a/meta.json", "[").missing();
}

#[test]
fn the_configuration_folder_can_be_elsewhere() {
    let place = place().engine().file("other/config.json", r#"{"currentContext":"nope"}"#);
    let other = place.home.join("other");
    place.set("DOCKER_CONFIG", other.to_str().unwrap()).missing();
}

#[test]
fn the_default_context_and_empty_variables_are_the_usual_socket() {
    let usual = place().engine().set("DOCKER_HOST", "").set("DOCKER_CONTEXT", "");
    assert!(usual.address().ends_with("/var/run/docker.sock"));
    let named =
        place().engine().set("DOCKER_CONTEXT", "default").file(".docker/config.json", r#"{"currentContext":"nope"}"#);
    assert!(named.address().ends_with("/var/run/docker.sock"));
}

#[test]
fn sockets_of_users_come_after_that_of_the_system() {
    let place = place().file(".colima/default/docker.sock", "").file(".docker/run/docker.sock", "");
    assert!(place.address().ends_with("/.docker/run/docker.sock"));
    let runtime = place.home.join("runtime");
    write(&runtime.join("docker.sock"), "");
    let place = place.set("XDG_RUNTIME_DIR", runtime.to_str().unwrap());
    assert!(place.address().ends_with("/runtime/docker.sock"));
    assert!(place.engine().address().ends_with("/var/run/docker.sock"));
}

#[test]
fn no_engine_at_all_says_where_it_looked() {
    let error = place().missing();
    assert!(error.hint().unwrap().contains("var/run/docker.sock"));
}

#[test]
fn tls_is_refused_and_never_left_out() {
    let unsupported = |place: &Place| assert_eq!(place.resolve(None).unwrap_err().kind(), ErrorKind::Unsupported);
    unsupported(&place().engine().set("DOCKER_HOST", "tcp://far:2376").set("DOCKER_TLS_VERIFY", "1"));
    unsupported(&place().engine().set("DOCKER_HOST", "https://far:2376"));
    unsupported(&place().engine().set("DOCKER_HOST", "ssh://far"));
    let secured = place()
        .engine()
        .set("DOCKER_CONTEXT", "far")
        .context("a", "far", "tcp://far:2376")
        .file(".docker/contexts/tls/a/docker/ca.pem", "");
    unsupported(&secured);
}

#[test]
fn addresses_are_checked() {
    for good in
        ["unix:///a.sock", "/a.sock", "tcp://h", "tcp://h:1", "http://h:1/", "tcp://[::1]:2375", "npipe:////./pipe/x"]
    {
        assert!(parse(good, false).is_ok(), "{good}");
    }
    for bad in [
        "",
        "a.sock",
        "unix://a",
        "tcp://",
        "tcp://:1",
        "tcp://h:0",
        "tcp://h:x",
        "tcp://h/x:1",
        "tcp://u@h:1",
        "ftp://h",
        "npipe://",
    ] {
        assert_eq!(parse(bad, false).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad}");
    }
}
