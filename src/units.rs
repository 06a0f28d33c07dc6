//! Nanoseconds, bytes and counts, as text for people, and durations read from flags.

/// A time span in nanoseconds, three significant digits with a unit: `812 ns`, `8.42 µs`, `1.07 ms`, `12.3 s`.
pub fn time(ns: f64) -> String {
    let size = ns.abs();
    // Compared after rounding, so that 999.6 ns is 1.00 µs and not 1000 ns.
    let (value, unit) = if size < 999.5 {
        (ns, "ns")
    } else if size < 999.5e3 {
        (ns / 1e3, "µs")
    } else if size < 999.5e6 {
        (ns / 1e6, "ms")
    } else {
        (ns / 1e9, "s")
    };
    match unit {
        // Unit costs lie below a nanosecond: "0 ns" would say that they are free.
        "ns" if size < 9.95 && size.fract() != 0.0 => format!("{value:.1} ns"),
        "ns" => format!("{value:.0} ns"),
        _ => format!("{} {unit}", three_digits(value)),
    }
}

/// A signed difference of times: `+0.42 ms`.
pub fn time_difference(ns: f64) -> String {
    let text = time(ns);
    if ns >= 0.0 { format!("+{text}") } else { text }
}

/// Three significant digits without exponent; whole numbers from 100 on.
pub fn three_digits(x: f64) -> String {
    let size = x.abs();
    if size >= 99.95 {
        format!("{x:.0}")
    } else if size >= 9.995 {
        format!("{x:.1}")
    } else {
        format!("{x:.2}")
    }
}

/// Bytes in powers of 1024 with three significant digits: `512 B`, `31.9 KiB`, `2.05 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{} {unit}", three_digits(value))
}

/// A count with thousands separated: `1,000,003`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A count with its noun: `1 page`, `1,955 pages`, `2 libraries`.
pub fn counted(n: u64, noun: &str) -> String {
    match (n, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{} {stem}ies", count(n)),
        (_, None) => format!("{} {noun}s", count(n)),
    }
}

/// A duration as typed on the command line (`200ms`, `1.5s`, `2m`, `30` = seconds), in nanoseconds.
///
/// # Errors
/// A sentence that says what is expected, for the parser to put behind the flag's name.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let scale = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return Err("expected a time such as 200ms, 1.5s or 2m".to_string()),
    };
    match digits.parse::<f64>() {
        // 2^63 ns is 292 years: anything below is exact enough as u64.
        Ok(x) if x >= 0.0 && x * scale < 9.2e18 => Ok((x * scale).round() as u64),
        _ => Err("expected a time such as 200ms, 1.5s or 2m".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let cases = [
            (0.0, "0 ns"),
            (0.62, "0.6 ns"),
            (7.0, "7 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 µs"),
            (8_420.0, "8.42 µs"),
            (99_960.0, "100 µs"),
            (1.07e6, "1.07 ms"),
            (-5e6, "-5.00 ms"),
            (12.34e9, "12.3 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(time(ns), text);
        }
        assert_eq!(time_difference(420_000.0), "+420 µs");
    }

    #[test]
    fn bytes_and_counts() {
        assert_eq!(
            [0, 1023, 1024, 32_700, 1 << 20, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "31.9 KiB", "1.00 MiB", "16384 PiB"]
        );
        assert_eq!([0, 999, 1_000, 1_000_003].map(count), ["0", "999", "1,000", "1,000,003"]);
        assert_eq!(
            [counted(1, "library"), counted(2, "library"), counted(1_955, "page")],
            ["1 library", "2 libraries", "1,955 pages"]
        );
    }

    #[test]
    fn durations_parse_with_every_unit() {
        for (text, ns) in [
            ("200ms", 200_000_000),
            ("1.5s", 1_500_000_000),
            ("30", 30_000_000_000),
            ("2m", 120_000_000_000),
            ("5us", 5_000),
            ("7ns", 7),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(ns), "{text}");
        }
        for bad in ["", "-1s", "1 parsec", "ms", "1e300", "nan", "inf"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
