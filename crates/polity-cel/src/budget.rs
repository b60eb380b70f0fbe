//! How much work an evaluation may do.

/// Units of work an evaluation may still spend.
///
/// A step costs 1; reading or building `n` bytes of text costs `n / 10`; comparing or building a
/// list costs its length; quadratic functions cost the product of their operands. Units are spent
/// before the work, so a refused step has not been done. One unit is well under a microsecond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    left: u64,
}

/// The budget is spent; nothing more may be evaluated with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Budget {
    /// The limit of Kubernetes for one expression.
    pub const PER_EXPRESSION: u64 = 1_000_000;
    /// The limit of Kubernetes for all rules of one object together.
    pub const PER_OBJECT: u64 = 10_000_000;
    /// The limit of Kubernetes for all match conditions of one webhook together.
    pub const PER_MATCH: u64 = 2_500_000;

    /// A budget of this many units.
    pub fn of(units: u64) -> Self {
        Self { left: units }
    }

    /// The units not spent yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether the budget is exhausted.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    pub(crate) fn spend(&mut self, units: u64) -> Result<(), Exhausted> {
        if units > self.left {
            self.left = 0;
            return Err(Exhausted);
        }
        self.left -= units;
        Ok(())
    }

    pub(crate) fn spend_bytes(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.spend(bytes as u64 / 10 + 1)
    }

    /// Runs `work` with at most `units` of this budget.
    pub(crate) fn within<T>(&mut self, units: u64, work: impl FnOnce(&mut Self) -> T) -> T {
        let granted = units.min(self.left);
        let mut part = Self { left: granted };
        let result = work(&mut part);
        self.left -= granted - part.left;
        result
    }
}
