//! Making children: fork, or posix_spawn where the command line says `vfork` (the kernel makes the process and
//! loads the program in one call; nothing of ours is copied and no code of ours runs in between).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::error::{Context, Error, Result};
use crate::sys::child::{ChildPlan, child_main};
use crate::sys::process::Target;
use crate::sys::ret::{cvt, errno};
use crate::sys::start::{Method, StartFailure};

/// What is made before the clock is read.
pub(crate) struct Ready {
    method: Method,
    /// Tells the child's end.
    queue: Option<OwnedFd>,
    spawn: Option<SpawnPlan>,
}

/// Attributes and file actions of posix_spawn.
struct SpawnPlan {
    attributes: libc::posix_spawnattr_t,
    actions: libc::posix_spawn_file_actions_t,
}

impl Drop for SpawnPlan {
    fn drop(&mut self) {
        // SAFETY: both were initialised by `spawn_plan` and are destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.attributes) };
        // SAFETY: as above.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.actions) };
    }
}

/// posix_spawn's calls return the error instead of setting errno.
fn check(errno: i32) -> Result<()> {
    if errno == 0 { Ok(()) } else { Err(Error::from_errno(errno)) }
}

/// Prepares what `spawn` needs, outside of the timed window.
///
/// # Errors
/// Where the system has no descriptor or memory left, or the plan asks for what macOS does not offer.
pub(crate) fn ready(method: Method, plan: &ChildPlan<'_>) -> Result<Ready> {
    let queue = plan.watched.then(kqueue).transpose()?;
    let spawn = match method {
        Method::Fork => None,
        Method::Vfork => Some(spawn_plan(plan).context(|| "cannot prepare posix_spawn")?),
    };
    Ok(Ready { method, queue, spawn })
}

fn kqueue() -> Result<OwnedFd> {
    // SAFETY: kqueue takes no arguments.
    let fd = cvt(unsafe { libc::kqueue() }).context(|| "cannot make an event queue")?;
    // SAFETY: the descriptor was just made and has no other owner.
    let queue = unsafe { OwnedFd::from_raw_fd(fd) };
    // A fork does not hand it on; whether posix_spawn does is not documented.
    // SAFETY: the descriptor is open; F_SETFD takes an int.
    cvt(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    Ok(queue)
}

fn spawn_plan(plan: &ChildPlan<'_>) -> Result<SpawnPlan> {
    if plan.program.cpu.is_some() {
        return Err(Error::new("macOS does not pin a process to a processor"));
    }
    let mut attributes: libc::posix_spawnattr_t = ptr::null_mut();
    // SAFETY: init fills the handle, which is a live local.
    check(unsafe { libc::posix_spawnattr_init(&raw mut attributes) })?;
    let mut actions: libc::posix_spawn_file_actions_t = ptr::null_mut();
    // SAFETY: as above.
    if let Err(e) = check(unsafe { libc::posix_spawn_file_actions_init(&raw mut actions) }) {
        // SAFETY: initialised above, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&raw mut attributes) };
        return Err(e);
    }
    let mut ready = SpawnPlan { attributes, actions };
    // A process group of its own, as `child_main` makes it.
    let flags = libc::POSIX_SPAWN_SETPGROUP as libc::c_short;
    // SAFETY: the handle is initialised.
    check(unsafe { libc::posix_spawnattr_setflags(&raw mut ready.attributes, flags) })?;
    // SAFETY: the handle is initialised; 0 means the child's own pid.
    check(unsafe { libc::posix_spawnattr_setpgroup(&raw mut ready.attributes, 0) })?;
    for (from, to) in [(plan.stdin, 0), (plan.stdout, 1), (plan.stderr, 2)] {
        // SAFETY: the handle is initialised; both descriptors are numbers.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut ready.actions, from, to) })?;
    }
    if let Some(dir) = &plan.program.cwd {
        // SAFETY: the handle is initialised, the path NUL-terminated; it is copied.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&raw mut ready.actions, dir.as_ptr()) })?;
    }
    Ok(ready)
}

/// Makes the child. Returns its pid and, where `plan.watched`, a descriptor that turns readable at its end.
///
/// # Errors
/// The system's reason; with posix_spawn also why the program cannot be executed.
pub(crate) fn spawn(ready: Ready, plan: &ChildPlan<'_>) -> Result<(i32, Option<OwnedFd>), StartFailure> {
    let pid = match (&ready.method, &ready.spawn) {
        (Method::Vfork, Some(spawn)) => posix_spawn(spawn, plan)?,
        _ => fork(plan).context(|| "cannot fork")?,
    };
    if let Some(queue) = &ready.queue {
        watch(queue, pid);
    }
    Ok((pid, ready.queue))
}

fn fork(plan: &ChildPlan<'_>) -> Result<i32> {
    // SAFETY: the child makes system calls only, until exec or _exit.
    let pid = cvt(unsafe { libc::fork() })?;
    if pid == 0 {
        // SAFETY: we are the forked child, with copies of all that `plan` points to.
        unsafe { child_main(plan) }
    }
    Ok(pid)
}

fn posix_spawn(ready: &SpawnPlan, plan: &ChildPlan<'_>) -> Result<i32, StartFailure> {
    let Target::Path(path) = &plan.program.target else {
        return Err(StartFailure::Exec(libc::ENOTSUP));
    };
    let mut pid = 0;
    // SAFETY: handles are initialised; path and arrays are NUL-terminated and alive; `pid` is a live local.
    let failed = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            path.as_ptr(),
            &raw const ready.actions,
            &raw const ready.attributes,
            plan.program.argv.as_ptr().cast(),
            plan.program.envp.as_ptr().cast(),
        )
    };
    match failed {
        0 => Ok(pid),
        libc::EAGAIN | libc::ENOMEM => Err(Error::from_errno(failed).context("posix_spawn").into()),
        errno => Err(StartFailure::Exec(errno)),
    }
}

/// Makes the queue readable at the end of `pid`.
fn watch(queue: &OwnedFd, pid: i32) {
    let event = |ident: usize, filter: i16, flags: u16, fflags: u32| libc::kevent {
        ident,
        filter,
        flags,
        fflags,
        data: 0,
        udata: ptr::null_mut(),
    };
    let add = |change: &libc::kevent| {
        // SAFETY: one change from a live local, no events asked for.
        unsafe { libc::kevent(queue.as_raw_fd(), ptr::from_ref(change), 1, ptr::null_mut(), 0, ptr::null()) == 0 }
    };
    let ident = usize::try_from(pid).unwrap_or(0);
    let exit = event(ident, libc::EVFILT_PROC, libc::EV_ADD | libc::EV_ONESHOT, libc::NOTE_EXIT);
    // It may have ended before we asked: then an event of our own says so.
    if !add(&exit) && errno() == libc::ESRCH {
        let ours = event(1, libc::EVFILT_USER, libc::EV_ADD, 0);
        let trigger = event(1, libc::EVFILT_USER, 0, libc::NOTE_TRIGGER);
        let _ = add(&ours) && add(&trigger);
    }
}
