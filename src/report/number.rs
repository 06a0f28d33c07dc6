//! Numbers in the form that other programs' output has.

/// C's `%.{digits}g`: `digits` significant digits, trailing zeros dropped, an exponent where the number is below
/// 1e-4 or has more digits than that before the point.
pub fn general(x: f64, digits: usize) -> String {
    let digits = digits.max(1);
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    // Rust rounds here as C does; the exponent is that of the rounded number.
    let scientific = format!("{x:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{x:.decimals$}")).to_string()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_as_printf() {
        // Made with printf '%.8g %.6g'.
        for (x, eight, six) in [
            (238.047_614_284_76, "238.04761", "238.048"),
            (50.0, "50", "50"),
            (0.0, "0", "0"),
            (1_603_903_912.0, "1.6039039e+09", "1.6039e+09"),
            (0.000_123_456_789, "0.00012345679", "0.000123457"),
            (0.000_012_345, "1.2345e-05", "1.2345e-05"),
            (99_999_999.6, "1e+08", "1e+08"),
            (-240.0, "-240", "-240"),
            (1e-300, "1e-300", "1e-300"),
            (123_456.0, "123456", "123456"),
            (1_234_567.0, "1234567", "1.23457e+06"),
        ] {
            assert_eq!((general(x, 8).as_str(), general(x, 6).as_str()), (eight, six));
        }
    }
}
