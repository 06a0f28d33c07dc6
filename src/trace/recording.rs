//! What one observed start left behind, whichever back end saw it.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::error::Error;
use crate::sys::keeper::Heard;
use crate::sys::wait::{Usage, WaitStatus};
use crate::trace::event::{Event, Mark, What};

/// One recorded start.
#[derive(Debug, Clone)]
pub struct Recording {
    /// What happened, in order; times without the time in which we held the first thread.
    pub events: Vec<Event>,
    /// From just before the fork until wait4 returned, the time held not counted, in nanoseconds.
    pub total_ns: u64,
    /// Time in which the program's first thread was held by us.
    pub held_ns: u64,
    /// Stops of any task after its first exec.
    pub stops: u64,
    /// How it ended.
    pub status: WaitStatus,
    /// What it used.
    pub usage: Usage,
    /// Its output.
    pub heard: Heard,
    /// Most threads alive at once in the process.
    pub threads_max: u64,
    /// Processes made by it and by those.
    pub children: u64,
    /// Peak of resident memory, from its own counter at its end (VmHWM), where `/proc` tells it.
    pub peak_rss_bytes: Option<u64>,
    /// Events that could not be recorded: counts are lower bounds then.
    pub lost: u64,
    /// Places of marks that no symbol names, found while it ran.
    pub learned: Vec<Marked>,
}

/// A marked place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// What it is.
    pub mark: Mark,
    /// The file.
    pub path: PathBuf,
    /// Offset in it.
    pub offset: u64,
}

impl Recording {
    /// A recording whose threads and children are counted from its events.
    pub fn new(
        events: Vec<Event>,
        total_ns: u64,
        held_ns: u64,
        status: WaitStatus,
        usage: Usage,
        heard: Heard,
    ) -> Recording {
        let (threads_max, children) = tasks(&events);
        Recording {
            events,
            total_ns,
            held_ns,
            stops: 0,
            status,
            usage,
            heard,
            threads_max,
            children,
            peak_rss_bytes: None,
            lost: 0,
            learned: Vec::new(),
        }
    }
}

/// Most threads alive at once in the first process, and processes made. A thread that has begun to exit runs none of
/// its program's code any more, and is not counted from there.
pub fn tasks(events: &[Event]) -> (u64, u64) {
    let Some(pid) = events.first().map(|e| e.pid) else { return (0, 0) };
    let mut alive = HashSet::from([pid]);
    let (mut most, mut children) = (1, 0);
    for event in events {
        match event.what {
            What::NewTask { thread: false, .. } => children += 1,
            What::NewTask { child, thread: true } if event.pid == pid => {
                alive.insert(child);
                most = most.max(alive.len() as u64);
            }
            What::ExitBegins | What::TaskGone => {
                alive.remove(&event.tid);
            }
            // The other threads are gone.
            What::Exec if event.pid == pid => alive = HashSet::from([pid]),
            _ => {}
        }
    }
    (most, children)
}

/// Why there is no recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotTraced {
    /// Tracing is not permitted here: why. Other means may work.
    Denied(String),
    /// The command itself could not be started, or the system failed.
    Failed(Error),
}

impl From<Error> for NotTraced {
    fn from(e: Error) -> Self {
        NotTraced::Failed(e)
    }
}
