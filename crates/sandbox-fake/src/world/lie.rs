//! Lies that only a kernel can tell; each is one line where it is told.

/// See the variants of the same names in `Fault`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    DestroyLeavesDaemons,
    FilesAreShared,
    PidsCapIsForShow,
    PidsCapEndsEverything,
    KillReachesTheProgramAlone,
    ZombiesStay,
    TerminalsDoNotEcho,
    DestroyLeavesServices,
    ServicesAreNotClaimed,
    ServicesOutliveTheirProgram,
    ServicesAreEverybodys,
    ServicesHaveAnOpenNetwork,
}
