//! A list of field errors of bounded length.

use std::collections::HashSet;
use std::ops::Deref;

use super::FieldError;

/// How many errors about one object are kept. They come from foreign input, and each may hold a long
/// path and a long value.
pub const MAX_ERRORS: usize = 1000;

/// Errors in the order in which they were found, up to [`MAX_ERRORS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// Whether nothing is kept any more.
    pub fn is_full(&self) -> bool {
        self.0.len() >= MAX_ERRORS
    }

    /// Adds an error. It is made only if it is kept.
    pub fn add(&mut self, error: impl FnOnce() -> FieldError) {
        if !self.is_full() {
            self.0.push(error());
        }
    }

    /// Adds an error that was made already.
    pub fn push(&mut self, error: FieldError) {
        self.add(|| error);
    }

    pub fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    /// The errors, each once.
    pub fn into_distinct(mut self) -> Vec<FieldError> {
        let mut seen = HashSet::with_capacity(self.0.len());
        let is_first: Vec<bool> = self.0.iter().map(|error| seen.insert(error)).collect();
        let mut is_first = is_first.into_iter();
        self.0.retain(|_| is_first.next().unwrap_or_default());
        self.0
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.0
    }
}

/// Takes no more from the iterator than is kept.
impl Extend<FieldError> for FieldErrors {
    fn extend<T: IntoIterator<Item = FieldError>>(&mut self, errors: T) {
        let n_left = MAX_ERRORS.saturating_sub(self.0.len());
        self.0.extend(errors.into_iter().take(n_left));
    }
}

#[cfg(test)]
mod tests {
    use super::super::FieldPath;
    use super::*;

    fn error(number: usize) -> FieldError {
        FieldError::required(&FieldPath::of("list").index(number), "")
    }

    #[test]
    fn errors_beyond_the_limit_are_not_made() {
        let mut n_made = 0;
        let mut errors = FieldErrors::default();
        for number in 0..MAX_ERRORS / 2 {
            errors.add(|| error(number));
        }
        errors.extend((0..1_000_000).map(|number| {
            n_made += 1;
            error(number)
        }));
        assert_eq!((errors.len(), n_made), (MAX_ERRORS, MAX_ERRORS / 2));
        errors.add(|| unreachable!("the list is full"));
        errors.push(error(0));
        assert_eq!(errors.into_vec().len(), MAX_ERRORS);
    }

    #[test]
    fn distinct_errors_stay_in_order() {
        let mut errors = FieldErrors::default();
        errors.extend([2, 1, 2, 3, 1].map(error));
        assert_eq!(errors.into_distinct(), [2, 1, 3].map(error));
    }
}
