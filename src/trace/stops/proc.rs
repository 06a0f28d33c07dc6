//! What `/proc` accounts for a stopped process. All of it may be absent.

use std::path::PathBuf;

/// The file of the program that runs now.
pub(super) fn executable(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Peak of resident memory since exec (VmHWM), without the parent's that rusage has.
pub(super) fn peak_rss_bytes(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Page faults of a process so far, user and kernel mode: minor, major.
pub(super) fn faults(pid: i32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything; fields are counted from behind it. proc_pid_stat(5): minflt is field 10.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?))
}

/// Mapped files, each with the address of its beginning.
pub(super) fn mapped_files(pid: i32) -> Vec<(PathBuf, u64)> {
    let Ok(text) = std::fs::read(format!("/proc/{pid}/maps")) else { return Vec::new() };
    let text = String::from_utf8_lossy(&text);
    // address-address perms offset dev inode path
    let first = |line: &str| {
        let mut fields = line.split_whitespace();
        let addr = u64::from_str_radix(fields.next()?.split_once('-')?.0, 16).ok()?;
        let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
        let path = line.get(line.find('/')?..)?;
        (offset == 0).then(|| (PathBuf::from(path), addr))
    };
    text.lines().filter_map(first).collect()
}

/// Private pages of each mapped file, from the kernel's own account (smaps: "Anonymous" within a file's mapping). Not
/// those of code: what was written there are our breakpoints.
pub(super) fn written_pages(pid: i32) -> Vec<(PathBuf, u64)> {
    let Ok(text) = std::fs::read(format!("/proc/{pid}/smaps")) else { return Vec::new() };
    parse_written(&String::from_utf8_lossy(&text))
}

fn parse_written(text: &str) -> Vec<(PathBuf, u64)> {
    let mut files: Vec<(PathBuf, u64)> = Vec::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(kib) = line.strip_prefix("Anonymous:") {
            let pages = kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 4;
            if let Some((_, total)) = current.and_then(|i: usize| files.get_mut(i)) {
                *total += pages;
            }
        } else if let Some((_, rest)) = line.split_once(' ').filter(|(range, _)| range.contains('-')) {
            // The path is the last field and may hold spaces.
            let is_code = rest.as_bytes().get(2) == Some(&b'x');
            let path = line.find('/').and_then(|at| line.get(at..)).filter(|_| !is_code).map(PathBuf::from);
            current = path.map(|path| match files.iter().position(|(p, _)| *p == path) {
                Some(i) => i,
                None => {
                    files.push((path, 0));
                    files.len() - 1
                }
            });
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_pages_are_summed_by_file() {
        let text = "1000-2000 r--p 00000000 fe:00 7   /lib/a b.so\nSize: 4 kB\nAnonymous:   0 kB\nVmFlags: rd mr\n\
                    2000-9000 rw-p 00001000 fe:00 7   /lib/a b.so\nAnonymous:  24 kB\n\
                    9000-a000 r-xp 00009000 fe:00 7   /lib/a b.so\nAnonymous: 4 kB\n\
                    a000-b000 rw-p 00000000 00:00 0 \nAnonymous: 4 kB\n\
                    b000-c000 rw-p 00000000 00:00 0   [heap]\nAnonymous: 400 kB\n";
        assert_eq!(parse_written(text), [(PathBuf::from("/lib/a b.so"), 6)]);
        assert_eq!(parse_written("Anonymous: 8 kB\nnonsense\n"), []);
    }

    #[test]
    fn our_own_account_can_be_read() {
        let pid = std::process::id() as i32;
        if std::path::Path::new("/proc/self/stat").exists() {
            assert!(faults(pid).is_some() && peak_rss_bytes(pid).is_some() && executable(pid).is_some());
        }
    }
}
