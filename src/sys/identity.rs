//! Whose rights we have.

/// Effective user and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Effective user id.
    pub user: u32,
    /// Effective group id.
    pub group: u32,
}

/// Ours.
pub fn identity() -> Identity {
    // SAFETY: takes nothing, always succeeds.
    let user = unsafe { libc::geteuid() };
    // SAFETY: as above.
    let group = unsafe { libc::getegid() };
    Identity { user, group }
}
