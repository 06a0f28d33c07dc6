//! Small files of `/proc` and `/sys`: read with a bound, and what their lines mean. The parsers are pure.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;
use crate::facts::Fact;
use crate::sys::host::Quota;

/// No value that is read here is longer; of longer files only the beginning is wanted.
const BYTES: usize = 4096;

/// The text of a small file without the blanks around it: at most its first 4 KiB.
pub(super) fn text(path: impl AsRef<Path>) -> Fact<String> {
    let path = path.as_ref();
    let mut bytes = [0u8; BYTES];
    match read_beginning(path, &mut bytes) {
        Ok(n) => Fact::Value(String::from_utf8_lossy(bytes.get(..n).unwrap_or_default()).trim().to_string()),
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV)) => missing(path),
        Err(e) => Fact::Unreadable(Error::from(e).context(path.to_string_lossy()).to_string()),
    }
}

fn read_beginning(path: &Path, into: &mut [u8]) -> std::io::Result<usize> {
    let mut file = File::open(path)?;
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// A file that is not there says something only where its file system is.
fn missing(path: &Path) -> Fact<String> {
    for (root, sign) in [("/proc", "/proc/self"), ("/sys", "/sys/devices")] {
        if path.starts_with(root) && !Path::new(sign).exists() {
            return Fact::Unreadable(format!("{root} is not mounted"));
        }
    }
    Fact::Absent
}

/// A value read by `parse` out of a small file.
pub(super) fn parsed<T>(path: impl AsRef<Path>, parse: impl FnOnce(&str) -> Option<T>) -> Fact<T> {
    let path = path.as_ref();
    match text(path) {
        Fact::Value(t) => match parse(&t) {
            Some(v) => Fact::Value(v),
            None => Fact::Unreadable(format!("{}: not understood: {}", path.display(), first_line(&t))),
        },
        Fact::Absent => Fact::Absent,
        Fact::Unreadable(why) => Fact::Unreadable(why),
    }
}

fn first_line(t: &str) -> String {
    t.lines().next().unwrap_or("").chars().take(40).collect()
}

/// A whole number alone in a file.
pub(super) fn number(path: impl AsRef<Path>) -> Fact<i64> {
    parsed(path, |t| t.parse().ok())
}

/// Calls `see` with each line of a file that may be long, through a small buffer; lines are cut at 4 KiB, and the file
/// at 4 MiB (a mount table has thousands of lines where containers run).
pub(super) fn each_line(path: &str, mut see: impl FnMut(&str)) -> Result<(), String> {
    const MOST: u64 = 4 << 20;
    let fail = |e: std::io::Error| match missing(Path::new(path)) {
        Fact::Unreadable(why) => why,
        _ => Error::from(e).context(path).to_string(),
    };
    let mut file = File::open(path).map_err(fail)?.take(MOST);
    let (mut line, mut buffer) = (Vec::with_capacity(256), [0u8; BYTES]);
    loop {
        let n = match file.read(&mut buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::from(e).context(path).to_string()),
        };
        for &b in buffer.get(..n).unwrap_or_default() {
            if b == b'\n' {
                see(&String::from_utf8_lossy(&line));
                line.clear();
            } else if line.len() < BYTES {
                line.push(b);
            }
        }
        if n == 0 {
            if !line.is_empty() {
                see(&String::from_utf8_lossy(&line));
            }
            return Ok(());
        }
    }
}

/// How many numbers a list such as `0-3,8` has.
pub(super) fn count_of_list(list: &str) -> Option<u64> {
    each_of_list(list, |_| {})
}

/// Calls `see` with every number of a list such as `0-3,8`, and returns how many there were.
pub(super) fn each_of_list(list: &str, mut see: impl FnMut(u64)) -> Option<u64> {
    /// No system numbers its processors so high.
    const MOST: u64 = 1 << 16;
    let mut count = 0;
    for part in list.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u64, u64) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        if from > to || to >= MOST {
            return None;
        }
        (from..=to).for_each(&mut see);
        count += to - from + 1;
    }
    Some(count)
}

/// The processor's name out of `/proc/cpuinfo`: `model name`, or what ARM's and others' lines give instead.
pub(super) fn cpu_model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let named = |l: &&str| l.split(':').next().is_some_and(|k| k.trim() == name);
        let line = cpuinfo.lines().find(named)?;
        let value = line.split_once(':')?.1.trim();
        (!value.is_empty()).then(|| value.to_string())
    };
    let arm = || Some(format!("implementer {} part {}", field("CPU implementer")?, field("CPU part")?));
    field("model name").or_else(|| field("cpu model")).or_else(arm).or_else(|| field("cpu"))
}

/// Ticks that the hypervisor took, out of `/proc/stat`: the eighth number of its first line (proc_stat(5)).
pub(super) fn steal_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    line.split_ascii_whitespace().nth(7)?.parse().ok()
}

/// A field of a control group's flat file: `nr_throttled 12`.
pub(super) fn flat_field(text: &str, name: &str) -> Option<u64> {
    let mut words = text.lines().map(str::split_ascii_whitespace);
    words.find_map(|mut w| if w.next() == Some(name) { w.next()?.parse().ok() } else { None })
}

/// `cpu.max`: quota and period in microseconds; `None` within where there is no limit.
pub(super) fn cpu_max(text: &str) -> Option<Option<Quota>> {
    let mut words = text.split_ascii_whitespace();
    let (quota, period) = (words.next()?, words.next().unwrap_or("100000"));
    let period_us = period.parse().ok().filter(|p| *p > 0)?;
    match quota {
        "max" => Some(None),
        quota => Some(Some(Quota { quota_us: quota.parse().ok()?, period_us })),
    }
}

/// `memory.max`, or `memory.limit_in_bytes` of version 1, which has the largest multiple of a page for "no limit".
pub(super) fn memory_max(text: &str) -> Option<Option<u64>> {
    const NO_LIMIT: u64 = 1 << 62;
    match text {
        "max" => Some(None),
        n => n.parse().ok().map(|n| Some(n).filter(|n| *n < NO_LIMIT)),
    }
}

/// A path of `/proc/self/mountinfo`: blanks, tabs, line ends and backslashes stand there as octal numbers.
pub(super) fn unescaped(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let code = escape.get(1..4).and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(u8::is_ascii);
        match code {
            Some(byte) => {
                out.push(char::from(byte));
                rest = escape.get(4..).unwrap_or("");
            }
            None => {
                out.push('\\');
                rest = escape.get(1..).unwrap_or("");
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        for (list, count) in [("0-1", Some(2)), ("0", Some(1)), ("0-3,8,10-11", Some(7)), ("0-1\n", Some(2))] {
            assert_eq!(count_of_list(list), count, "{list}");
        }
        for bad in ["", "a", "3-1", "0-", "-1", "0-18446744073709551615", "1,,2"] {
            assert_eq!(count_of_list(bad), None, "{bad}");
        }
        let mut seen = Vec::new();
        each_of_list("0-2,5", |n| seen.push(n));
        assert_eq!(seen, [0, 1, 2, 5]);
    }

    #[test]
    fn names_of_processors() {
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) CPU\n";
        let arm = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        let mips = "system type\t\t: MIPS Malta\ncpu model\t\t: MIPS 24Kc V0.0\n";
        let power = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("Intel(R) Xeon(R) CPU"));
        assert_eq!(cpu_model(arm).as_deref(), Some("implementer 0x41 part 0xd0c"));
        assert_eq!(cpu_model(mips).as_deref(), Some("MIPS 24Kc V0.0"));
        assert_eq!(cpu_model(power).as_deref(), Some("POWER9, altivec supported"));
        assert_eq!(cpu_model("processor : 0\nmodel name :\n"), None);
    }

    #[test]
    fn stolen_ticks() {
        let stat = "cpu  343062 368 46937 974579 1266 0 256 120 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(steal_ticks(stat), Some(120));
        // Before Linux 2.6.11 there was no such column.
        assert_eq!(steal_ticks("cpu  1 2 3 4 5 6 7\n"), None);
        assert_eq!(steal_ticks(""), None);
    }

    #[test]
    fn control_group_files() {
        let v2 = "usage_usec 5\nuser_usec 3\nnr_periods 10\nnr_throttled 12\nthrottled_usec 3400\n";
        assert_eq!((flat_field(v2, "nr_throttled"), flat_field(v2, "throttled_usec")), (Some(12), Some(3400)));
        assert_eq!(flat_field("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n", "throttled_time"), Some(0));
        assert_eq!(flat_field("usage_usec 5\n", "nr_throttled"), None);
        assert_eq!(cpu_max("max 100000"), Some(None));
        assert_eq!(cpu_max("50000 100000"), Some(Some(Quota { quota_us: 50_000, period_us: 100_000 })));
        assert_eq!(cpu_max("150000").flatten().map(Quota::processors), Some(1.5));
        for bad in ["", "x 100000", "1 0", "-1 100000"] {
            assert_eq!(cpu_max(bad), None, "{bad}");
        }
        assert_eq!(memory_max("max"), Some(None));
        assert_eq!(memory_max("9223372036854771712"), Some(None));
        assert_eq!(memory_max("536870912"), Some(Some(536_870_912)));
        assert_eq!(memory_max("lots"), None);
    }

    #[test]
    fn escaped_paths() {
        assert_eq!(unescaped("/sys/fs/cgroup/cpu"), "/sys/fs/cgroup/cpu");
        assert_eq!(unescaped("/a\\040b\\134c\\011"), "/a b\\c\t");
        for odd in ["\\", "\\9", "\\999", "\\04", "é\\040é"] {
            unescaped(odd);
        }
    }

    #[test]
    fn files_that_are_not_there() {
        assert_eq!(text("/no/such/file"), Fact::Absent);
        assert!(matches!(text("/"), Fact::Unreadable(_)), "a directory is no text");
        assert!(each_line("/no/such/file", |_| {}).is_err());
        assert!(matches!(parsed("/dev/null", |_| None::<u8>), Fact::Unreadable(_)));
    }
}
