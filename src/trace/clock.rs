//! The observed program's own clock: time since t0, without the time in which we held it.

/// Cuts are added in order of time and do not overlap.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    t0: u64,
    cuts: Vec<(u64, u64)>,
    held: u64,
}

impl Clock {
    /// A clock that starts at `t0` (`CLOCK_MONOTONIC`).
    pub fn new(t0: u64) -> Clock {
        Clock { t0, ..Clock::default() }
    }

    /// Takes the time from `from` to `to` out.
    pub fn cut(&mut self, from: u64, to: u64) {
        if from < to {
            self.held = self.held.saturating_add(to - from);
            self.cuts.push((from, to));
        }
    }

    /// All that was taken out.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// A moment on this clock. A moment within a cut is the cut's beginning.
    pub fn at(&self, time: u64) -> u64 {
        let later = self.cuts.iter().rev().take_while(|(_, to)| *to > time);
        let not_yet = later.fold(0u64, |sum, (from, to)| sum.saturating_add(to - time.max(*from)));
        let held = self.held.saturating_sub(not_yet);
        time.saturating_sub(self.t0).saturating_sub(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_held_does_not_count() {
        let mut clock = Clock::new(100);
        clock.cut(200, 250);
        clock.cut(300, 400);
        clock.cut(500, 500);
        let at = [100, 150, 200, 225, 250, 260, 300, 350, 400, 410].map(|t| clock.at(t));
        assert_eq!(at, [0, 50, 100, 100, 100, 110, 150, 150, 150, 160]);
        assert_eq!((clock.held(), clock.at(0)), (150, 0));
    }
}
