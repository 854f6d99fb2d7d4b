//! The catalogue of lies.

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => {
        /// One thing that a backend gets wrong. See [`Fake::lying`](crate::Fake::lying).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Fault { $($(#[doc = $doc])+ $name,)* }

        impl Fault {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name, as in the code.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

faults! {
    /// `info` answers something else each time.
    InfoChanges;
    /// A capability is absent, and nobody says why.
    AbsenceWithoutReason;
    /// Denial of the network is called emulated.
    DenyIsEmulated;
    /// The isolation tier has no source.
    TierWithoutSource;
    /// A capability is declared without the one that it builds on.
    CapabilityWithoutItsBase;
    /// The defaults that are stated are not those in force.
    DefaultsAreOthers;
    /// Making the backend takes its time, as if it asked somebody.
    SlowToMake;
    /// `probe` makes a sandbox.
    ProbeProvisions;
    /// A sandbox claims more than its backend.
    SandboxClaimsMore;
    /// The error about a missing credential does not say which.
    CredentialIsNotNamed;
    /// An empty credential is as good as any.
    EmptyCredentialIsFine;

    /// `destroy` says that it did.
    DestroyDoesNothing;
    /// `destroy` answers before it has done anything.
    DestroyIsLate;
    /// `destroy` of what is not there fails.
    DestroyOfTheUnknownFails;
    /// `destroy` leaves processes that left their session.
    DestroyLeavesDaemons;
    /// A sandbox that died is not noticed: its commands say that they were killed.
    DeathIsAnExit;
    /// All sandboxes have the same files.
    FilesAreShared;
    /// A create gives a sandbox that is there already.
    CreateGivesTheSameAgain;
    /// A thread of each create stays.
    LeavesAThread;
    /// What ended stays in the list.
    EndedStaysInTheList;
    /// The list forgets to look at the second label.
    ListIgnoresALabel;
    /// The list shows only labels of users.
    ListForgetsOurLabels;
    /// The provider never gets the labels.
    LabelsStayInTheAdapter;
    /// Attaching makes a new sandbox.
    AttachMakesANew;
    /// An attached handle takes its sandbox along.
    AttachedHandleOwns;
    /// `detach` says that it did.
    DetachDoesNothing;
    /// A sandbox lives for a year, whatever is asked for.
    LifetimeIsIgnored;
    /// An engine can be reached from inside.
    EngineSocketIsInside;

    /// A create that is asked for again makes a second sandbox.
    RepeatMakesASecond;
    /// Secrets never arrive.
    SecretsAreForgotten;
    /// Secrets are variables like all others.
    SecretsAreShown;
    /// A snapshot holds the secrets of its sandbox.
    SnapshotsHoldSecrets;
    /// The engine never hears of the id.
    NothingIsClaimed;
    /// A create that fails half way does not say what it made.
    LeaksWhenCreateFails;
    /// What the provider said is lost.
    ProviderWordsAreLost;
    /// An unknown image is the default one.
    UnknownImageIsTheDefault;
    /// The spec's environment is ignored.
    SpecEnvIsIgnored;
    /// The spec's user is ignored.
    SpecUserIsIgnored;
    /// The cap on memory is ignored.
    MemoryLimitIsIgnored;
    /// The cap on processors is ignored.
    CpuLimitIsIgnored;
    /// The cap on the disk is ignored.
    DiskLimitIsIgnored;
    /// The cap on processes is ignored.
    PidsLimitIsIgnored;
    /// The cap on processes is shown and does not hold.
    PidsCapIsForShow;
    /// Whoever meets the cap on processes takes every sandbox along.
    PidsCapEndsEverything;
    /// Death by the memory cap is a kill like any other.
    OomIsAKill;
    /// Death by the memory cap is a success.
    OomIsSuccess;

    /// What is denied is open.
    DenyIsOpen;
    /// The policy of the last create holds for all sandboxes.
    PolicyIsTheLastOnes;

    /// What rules allow in part is open.
    RulesAreOpen;
    /// A change of the policy is forgotten.
    NetworkChangeDoesNothing;
    /// What was learned is lost.
    LearningIsLost;
    /// The host's environment is inside.
    HostEnvironmentIsInside;
    /// A used up quota is a failure like any other.
    QuotaIsAFailure;
    /// The list is its first page.
    ListIsItsFirstPage;
    /// `pause` says that it did.
    PauseDoesNothing;
    /// `stop` says that it did.
    StopDoesNothing;
    /// `extend` says that it did.
    ExtendDoesNothing;
    /// A sandbox of a snapshot is one of the image.
    SnapshotIsForgotten;
    /// An unknown snapshot is the image.
    UnknownSnapshotIsTheImage;
    /// The list of snapshots has all of them.
    SnapshotListIgnoresLabels;
    /// A copy is a new sandbox.
    ForkIsANew;
    /// A copy lives for an hour, whatever is asked for.
    ForkLivesForAnHour;
    /// Commands stand still while a snapshot is made, and none can be started.
    SnapshotsFreeze;
    /// A snapshot that was deleted is still there.
    DeletedSnapshotsStay;
    /// What is so already cannot be asked for: a second pause, stop, resume or restart fails.
    LifecycleIsNotIdempotent;
    /// A restart begins the lifetime anew.
    RestartBeginsTheLifetime;
    /// The lifetime stands still from a pause on.
    PauseStopsTheLifetime;
    /// The list does not hear of another end.
    ExtensionIsNotListed;
    /// Every port is one that a program listens at.
    EveryPortIsListenedAt;
    /// A port is closed where the network is denied.
    PortsAreClosedUnderDeny;
    /// A port of one sandbox is the same port of all.
    PortsAreOneForAll;

    /// An image is what its definition begins with.
    BuildsAreTheirBase;
    /// What was built is never found again.
    EveryBuildIsNew;
    /// A rebuild finds what is there.
    RebuildsAreFound;
    /// Definitions with the same text are the same, whatever they copy.
    BuildsGoByTheirText;
    /// Nobody says which step of a definition failed.
    FailedStepsSayNothing;
    /// A definition that begins with an unknown image begins with the default one.
    UnknownBaseIsTheDefault;

    /// `kill` says that all are dead.
    KillDoesNothing;
    /// `kill` ends the sandbox.
    KillEndsTheSandbox;
    /// A kill, or a deadline inside, reaches the program and not its children.
    KillReachesTheProgramAlone;
    /// TERM is a kill.
    TermIsKill;
    /// A signal reaches the whole tree.
    SignalsReachTheTree;
    /// The deadline inside comes at half the time.
    DeadlineComesEarly;
    /// There is no deadline inside.
    DeadlineIsIgnored;
    /// An end at the deadline is told as a signal that the program died of.
    DeadlineIsASignal;
    /// The deadline ends the sandbox.
    DeadlineEndsTheSandbox;
    /// The deadline ends the sandbox also when the command is over.
    DeadlineOutlivesItsCommand;
    /// Nobody asks before the kill.
    GraceIsIgnored;
    /// TERM is sent unasked.
    TermComesUnasked;
    /// The end of one command is the end of all.
    EndOfOneEndsAll;
    /// A parent that has ended leaves its zombies.
    ZombiesStay;
    /// STOP is ignored.
    StopIsIgnored;
    /// Signals other than those that end, stop or continue are swallowed.
    SignalsAreSwallowed;

    /// A command that asked for a terminal has pipes.
    TerminalsArePipes;
    /// A terminal has the usual size, whatever is asked for.
    TerminalsHaveTheUsualSize;
    /// `resize` says that it did.
    ResizeDoesNothing;
    /// A terminal echoes nothing.
    TerminalsDoNotEcho;
    /// Ctrl-C never arrives.
    CtrlCIsLost;

    /// A command ends with the connection that started it.
    DetachedCommandsEnd;
    /// A command ends with whoever has reached it again.
    WatchersEndTheirCommand;
    /// A command that ended is told to have ended well to whoever comes later.
    EndedCommandsEndedWell;
    /// A command is known to the client that started it, and to nobody else.
    CommandsAreTheirClients;
    /// All output is promised to whoever comes later.
    ReplayIsOverstated;
    /// An unknown command is the last one.
    UnknownCommandIsTheLast;
    /// Whoever comes later sees no output.
    LaterWatchersSeeNothing;

    /// Blanks at the ends of output are lost.
    OutputIsTrimmed;
    /// stderr is lost.
    StderrIsLost;
    /// stderr comes as stdout.
    StderrComesAsStdout;
    /// Output is text.
    OutputIsText;
    /// No more than a mebibyte of a stream comes.
    OutputStopsAtAMebibyte;
    /// Two pieces of output change places.
    PiecesChangePlaces;
    /// Of many commands at once, each may get another's output.
    OutputsAreMixed;
    /// Output that looks like an engine's error is taken for one.
    OutputIsTakenForAnError;
    /// Output comes when the command has ended by itself.
    OutputIsHeldBack;
    /// The end comes before the output.
    EndComesFirst;
    /// The end comes when all streams have ended.
    EndWaitsForTheStreams;
    /// The second piece of stdout is lost.
    LosesAPiece;
    /// Every second command of a sandbox says nothing on stdout.
    EverySecondCommandIsSilent;
    /// Every code but zero is one.
    NonZeroIsOne;
    /// Every end is a success.
    AnyEndIsZero;
    /// A death by signal is told as a code.
    SignalsAreCodes;
    /// A death by signal is told as a success.
    SignalIsSuccess;

    /// Blanks at the ends of arguments are lost.
    ArgumentsAreTrimmed;
    /// A shell looks at the arguments.
    AShellLooksAtArguments;
    /// Long arguments are cut.
    LongArgumentsAreCut;
    /// A shell's text ends at its first pipe.
    ShellStopsAtAPipe;
    /// A variable of one command is in the next one too.
    EnvLeaksToTheNext;
    /// The spec's variables win over the command's.
    EnvOfTheSpecWins;
    /// Blanks at the ends of values are lost.
    EnvValuesAreTrimmed;
    /// The working directory of a command is ignored.
    CwdIsIgnored;
    /// A working directory that cannot be is the default one.
    MissingCwdIsTheDefault;
    /// The user of a command is ignored.
    UserIsIgnored;
    /// An unknown user is the default one.
    UnknownUserIsTheDefault;
    /// The last byte of the input is lost.
    InputIsCut;
    /// No more than a mebibyte of the input arrives.
    InputStopsAtAMebibyte;
    /// No input never ends.
    NoInputNeverEnds;
    /// Much input that a program may not have read is an error.
    UnreadInputIsAnError;
    /// Input arrives when it is closed.
    InputWaitsForItsEnd;
    /// The end of the input is forgotten.
    EndOfInputIsForgotten;
    /// A write never waits for the program.
    WritesNeverWait;
    /// A program that is not there is a success.
    UnknownProgramIsSuccess;
    /// A command starts when the one before has ended.
    CommandsTakeTurns;
    /// Every command is started twice.
    CommandsRunTwice;

    /// A write adds a newline.
    WritesAddANewline;
    /// A write over a longer file leaves the rest of it.
    WritesDoNotTruncate;
    /// A write empties the file first.
    WritesEmptyFirst;
    /// A write leaves a temporary file where it does not succeed.
    LeavesATemporary;
    /// Parents of a file are not made.
    ParentsAreNotMade;
    /// A body of another length than it says is taken.
    LengthIsNotChecked;
    /// Files end after 64 MiB.
    FilesAreCut;
    /// Blanks at the ends of names are lost.
    NamesAreTrimmed;
    /// `..` in a path takes a name away, whatever link it stands for.
    PathsGoByTheText;
    /// File operations and programs see different files.
    FilesAreElsewhere;
    /// A range begins at the beginning.
    RangesIgnoreTheirOffset;
    /// A missing file is an empty one.
    MissingFilesAreEmpty;
    /// What is of the wrong kind is not there.
    KindsAreNotTold;
    /// Errors do not name the path.
    ErrorsDoNotNameThePath;
    /// What is not permitted is silently not done.
    PermissionsAreIgnored;
    /// What is read-only is silently not written.
    ReadOnlyIsIgnored;
    /// FIFOs and devices are empty files.
    SpecialFilesAreEmpty;
    /// A path that leads nowhere is looked up on the host.
    LinksLeadToTheHost;
    /// A write goes to where a link points.
    WritesFollowLinks;
    /// Removing follows links.
    RemoveFollowsLinks;
    /// `stat` follows links.
    StatFollowsLinks;
    /// A listing lacks its last entry.
    ListLosesTheLast;
    /// A listing has at most a thousand entries.
    ListStopsAtAThousand;
    /// A directory that is there cannot be made.
    MakeDirTwiceFails;
    /// A file that was moved is still there.
    RenameCopies;
    /// Removing takes directories with all that is in them.
    RemoveTakesDirectories;
    /// Modes are ignored.
    ModesAreIgnored;
    /// Owners are ignored.
    OwnersAreIgnored;
    /// Times are ignored.
    TimesAreIgnored;
    /// A tree is unpacked nowhere.
    TreesAreNotUnpacked;
    /// There is no tree of a link.
    TreesOfLinksAreRefused;
    /// What a link leads to is written anew.
    LinkTargetsAreTidied;
    /// A transfer that is dropped takes the sandbox along.
    DroppedTransferEndsTheSandbox;

    /// A watch tells of what is below other directories too.
    WatchIsAlwaysRecursive;
    /// Of many new files, a few are told.
    WatchLosesABurst;
    /// What is not there, or no directory, is watched in silence.
    WatchOfNothingIsFine;
    /// Other modes, owners and times are no changes.
    WatchIgnoresAttributes;
    /// Two changes change places.
    ChangesChangePlaces;
    /// The end of one watch is the end of all.
    WatchesEndTogether;

    /// A service is another name for its sandbox.
    ServicesAreTheirSandbox;
    /// Environment, user and directory of the spec are those of its services too.
    ServicesInheritTheSpec;
    /// The services of one sandbox are reached from all.
    ServicesAreEverybodys;
    /// What services reach is under no policy.
    ServicesHaveAnOpenNetwork;
    /// The end of one service is the end of its sandbox.
    ServicesTakeTheirSandboxAlong;
    /// A service goes on when its main program has ended.
    ServicesOutliveTheirProgram;
    /// `destroy` leaves what runs beside the sandbox.
    DestroyLeavesServices;
    /// A create that fails says nothing of the services that it has made, and nobody ends them.
    ServicesAreNotClaimed;
    /// Whoever reaches a sandbox finds no services.
    AttachForgetsServices;
    /// Services are sandboxes of the list.
    ListShowsServices;
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
