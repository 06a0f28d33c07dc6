//! What is at the other end of a file descriptor: a terminal or not, and how wide.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Columns of the terminal behind `fd`; `None` where it is not a terminal or does not say.
pub fn width(fd: BorrowedFd<'_>) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ fills a winsize; the pointer is to a live local.
    let got = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (got == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
