//! The traits of a live sandbox and of a command in it.

use crate::{
    Body, Changes, Destination, Endpoint, Error, Event, Exec, Extend, Fate, FileInfo, GetTree, ListDestinations,
    ListDir, Listening, MakeDir, OpenPort, Pause, ProcessId, PutTree, ReadFile, Reattach, Remove, Rename, Resize,
    Restart, Result, Resume, SetMeta, SetNetwork, Signal, SnapshotId, Stat, Stop, TakeSnapshot, WatchDir, WriteFile,
};
use bytes::Bytes;
use std::future::{Future, pending};

/// One live sandbox.
///
/// Optional operations take one request each and answer `unsupported` until overridden; each belongs to a capability, and
/// is called only where the facts declare it as native. Paths are absolute and checked.
pub trait Instance: Send + Sync + 'static {
    /// The handle on a running command.
    type Control: Control;
    /// What comes out of a running command.
    type Events: Events;

    /// Starts a command. Answers when it runs, or at once where the wire learns of that later: then
    /// [`Event::NotStarted`] says what failed.
    ///
    /// # Errors
    ///
    /// `program-not-found`, `start-failed`, `path-not-found` and `not-a-directory` for its working directory,
    /// `invalid-argument` for its user, `argument-too-large`, `gone`, and the transport kinds. An error whose
    /// [`may_have_applied`](Error::may_have_applied) is true says that the command may run all the same.
    fn spawn(&self, exec: &Exec) -> impl Future<Output = Result<(Self::Control, Self::Events)>> + Send;

    /// Reaches a running command by its [`Control::id`], whoever started it. What comes first is the output that
    /// [`Facts::replay`](crate::Facts::replay) declares, and the end is told to everybody who watches. Dropping what this
    /// gives leaves the command as it is. `REATTACH`.
    ///
    /// # Errors
    ///
    /// `not-found` for an id that is unknown, or of a command that has ended and whose status is not kept; where it is kept,
    /// its end is the first event. `gone`, and the transport kinds.
    fn reattach(&self, _request: &Reattach) -> impl Future<Output = Result<(Self::Control, Self::Events)>> + Send {
        async { Err(Error::unsupported("reaching a command again")) }
    }

    /// Resolves when the sandbox has died by another hand. Awaited once, beside everything else; its commands need not
    /// notice.
    fn gone(&self) -> impl Future<Output = Error> + Send {
        pending()
    }

    /// Tells the sandbox that it outlives its owner from now on. Called where `OWNER_LEASE` is declared.
    ///
    /// # Errors
    ///
    /// The transport kinds.
    fn detach(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Freezes every process and keeps its memory. The lifetime goes on, and so do services. A sandbox that is paused already is
    /// fine; one is not `gone` for it. What runs goes on, where it cannot be frozen now. `PAUSE`.
    ///
    /// # Errors
    ///
    /// `gone`, and the transport kinds.
    fn pause(&self, _request: &Pause) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("pausing")) }
    }

    /// Lets every process go on where it was. A sandbox that is not paused is fine. `PAUSE`.
    ///
    /// # Errors
    ///
    /// `gone`, and the transport kinds.
    fn resume(&self, _request: &Resume) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("resuming")) }
    }

    /// Ends every process and keeps the files. The lifetime goes on, and so do services. A sandbox that is stopped already is
    /// fine; one is not `gone` for it. Answers once every process has ended. `STOP_START`.
    ///
    /// # Errors
    ///
    /// `gone`, and the transport kinds.
    fn stop(&self, _request: &Stop) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("stopping")) }
    }

    /// Lets a stopped sandbox run again, with its files, environment and what is left of its lifetime. One that runs is fine.
    /// `STOP_START`.
    ///
    /// # Errors
    ///
    /// `gone`, `capacity`, and the transport kinds.
    fn restart(&self, _request: &Restart) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("running again")) }
    }

    /// Sets the end of its lifetime anew: so long from now on, later or sooner than before. Where labels are kept,
    /// [`labels::EXPIRES`](crate::labels::EXPIRES) says the new end in whatever lists it afterwards, or a sweep would end it.
    /// `EXTEND`.
    ///
    /// # Errors
    ///
    /// `gone`, `invalid-argument` where the account allows less than the facts say, and the transport kinds.
    fn extend(&self, _request: &Extend) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("another lifetime")) }
    }

    /// Makes an image of files, environment, working directory and user; the sandbox goes on. Where `SNAPSHOT_LIST` is declared,
    /// the labels go with it. `SNAPSHOT`.
    ///
    /// # Errors
    ///
    /// `gone`, `quota-exceeded`, and the transport kinds.
    fn snapshot(&self, _request: &TakeSnapshot) -> impl Future<Output = Result<SnapshotId>> + Send {
        async { Err(Error::unsupported("snapshots")) }
    }

    /// Sets what the sandbox and its services may reach: at once for new connections and lookups; live ones that the new policy
    /// forbids are cut before this answers. Where it fails, the old policy is in force. `DYNAMIC_NETWORK`.
    ///
    /// # Errors
    ///
    /// `gone`, and the transport kinds.
    fn set_network(&self, _request: &SetNetwork) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("another network policy")) }
    }

    /// Makes a port inside reachable at an address of its own, whatever the network policy, and whether somebody listens yet or
    /// not. Asked again, it is the same. `PORTS`.
    ///
    /// # Errors
    ///
    /// `gone`, `capacity`, and the transport kinds.
    fn open_port(&self, _request: &OpenPort) -> impl Future<Output = Result<Endpoint>> + Send {
        async { Err(Error::unsupported("ports")) }
    }

    /// Whether a program listens at a TCP port inside, at an address that is reached from outside or at the loopback. `PORTS`.
    ///
    /// # Errors
    ///
    /// `gone`, and the transport kinds.
    fn is_listening(&self, _request: &Listening) -> impl Future<Output = Result<bool>> + Send {
        async { Err(Error::unsupported("looking at ports")) }
    }

    /// What was reached so far while the policy was `Learn`, each once, in any order. `LEARN`.
    ///
    /// # Errors
    ///
    /// `gone`, and the transport kinds.
    fn destinations(&self, _request: &ListDestinations) -> impl Future<Output = Result<Vec<Destination>>> + Send {
        async { Err(Error::unsupported("recording destinations")) }
    }

    /// Opens a regular file. `FILES`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `is-a-directory`, `not-a-file`, `permission-denied`.
    fn read_file(&self, _request: &ReadFile) -> impl Future<Output = Result<Body>> + Send {
        async { Err(Error::unsupported("files")) }
    }

    /// Writes a regular file whole: makes parents, replaces what is there. `FILES`.
    ///
    /// # Errors
    ///
    /// `is-a-directory`, `not-a-directory`, `permission-denied`, `disk-full`, `read-only`.
    fn write_file(&self, _request: &WriteFile, _body: Body) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("files")) }
    }

    /// What is at a path; a link is not followed. `FILES`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `not-a-directory`, `permission-denied`.
    fn stat(&self, _request: &Stat) -> impl Future<Output = Result<FileInfo>> + Send {
        async { Err(Error::unsupported("files")) }
    }

    /// What is in a directory, in any order, without `.` and `..`. `FILES`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `not-a-directory`, `permission-denied`.
    fn list_dir(&self, _request: &ListDir) -> impl Future<Output = Result<Vec<FileInfo>>> + Send {
        async { Err(Error::unsupported("files")) }
    }

    /// Makes a directory and its parents; one that is there is fine. `FILES`.
    ///
    /// # Errors
    ///
    /// `already-exists` where a file is in the way, `permission-denied`, `read-only`.
    fn make_dir(&self, _request: &MakeDir) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("files")) }
    }

    /// Removes a file, a link, or with `recursive` a directory and all in it; links are never followed. `FILES`.
    ///
    /// # Errors
    ///
    /// `path-not-found` (not when recursive), `is-a-directory` (when not recursive), `permission-denied`, `read-only`.
    fn remove(&self, _request: &Remove) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("files")) }
    }

    /// Moves a file or directory, replacing a file that is there. `FILES`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `is-a-directory`, `not-a-directory`, `already-exists`, `permission-denied`, `read-only`.
    fn rename(&self, _request: &Rename) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("files")) }
    }

    /// Sets mode, owner and time of a file. `FILE_META`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `permission-denied`, `read-only`.
    fn set_meta(&self, _request: &SetMeta) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("metadata of files")) }
    }

    /// Watches a directory, from the answer on. `WATCH`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `not-a-directory`, `permission-denied`.
    fn watch(&self, _request: &WatchDir) -> impl Future<Output = Result<Changes>> + Send {
        async { Err(Error::unsupported("changes of files")) }
    }

    /// Name, kind, size and mode of what is at a path, without a command; a link is not followed. Owner and time may be left
    /// at zero. `TREE`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `not-a-directory`, `permission-denied`.
    fn stat_tree(&self, _request: &Stat) -> impl Future<Output = Result<FileInfo>> + Send {
        async { Err(Error::unsupported("trees of files")) }
    }

    /// Unpacks a tar stream below an existing directory. The stream is made or checked by the engine. `TREE`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `not-a-directory`, `permission-denied`, `disk-full`, `read-only`.
    fn put_tree(&self, _request: &PutTree, _tar: Body) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("trees of files")) }
    }

    /// Packs what is at a path into a tar stream: its first member is the path's last name, all others are below that. The
    /// stream has a tar's end, and no sparse members. `TREE`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `permission-denied`.
    fn get_tree(&self, _request: &GetTree) -> impl Future<Output = Result<Body>> + Send {
        async { Err(Error::unsupported("trees of files")) }
    }
}

/// The handle on one running command; used beside [`Events`], from other tasks.
pub trait Control: Send + Sync + 'static {
    /// What names the command for [`Instance::reattach`]. `REATTACH`.
    fn id(&self) -> Option<ProcessId> {
        None
    }

    /// KILL to the whole tree; says whether its death was seen. `KILL_ONE`.
    ///
    /// # Errors
    ///
    /// `gone`, and the transport kinds.
    fn kill(&self) -> impl Future<Output = Result<Fate>> + Send {
        async { Err(Error::unsupported("killing one command")) }
    }

    /// Sends a signal to the program alone. `SIGNALS`, and `TERM` for [`Signal::Terminate`].
    ///
    /// # Errors
    ///
    /// `wrong-state` after its end, `gone`, and the transport kinds.
    fn signal(&self, _signal: Signal) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("signals")) }
    }

    /// Writes to stdin; answers when the next piece may come, so that the program's pace becomes the user's. Pieces come
    /// in order, one at a time. `STDIN`, and `PTY` for what is typed on a terminal.
    ///
    /// # Errors
    ///
    /// `connection-lost` where the program takes no more.
    fn write(&self, _data: Bytes) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("stdin")) }
    }

    /// Closes stdin; nothing is to be done for a terminal, which has no end. `STDIN`.
    ///
    /// # Errors
    ///
    /// The transport kinds.
    fn close_stdin(&self) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("stdin")) }
    }

    /// Changes the size of its terminal. `PTY`.
    ///
    /// # Errors
    ///
    /// `wrong-state` after its end, and for a command without a terminal; `gone`, and the transport kinds.
    fn resize(&self, _request: &Resize) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("terminals")) }
    }
}

/// What comes out of one command. One task owns it and never drops a `next` half way and goes on: no cancel safety is
/// asked.
pub trait Events: Send + 'static {
    /// The next event; `None` once every stream has ended.
    ///
    /// # Errors
    ///
    /// The transport kinds; the command is then judged by [`Error::may_have_applied`].
    fn next(&mut self) -> impl Future<Output = Result<Option<Event>>> + Send;
}
