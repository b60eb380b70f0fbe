//! Rollout strategies: in which order and how fast the clusters of a placement get something new.
//!
//! Texts are read here, once: an engine that holds a [`RolloutStrategy`] has nothing left to refuse.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::SignedDuration;
use serde::{Serialize, Serializer};

use crate::duration::{self, DurationError};

/// Where a cluster stands in a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RolloutStatus {
    /// Not handed out yet.
    ToApply,
    /// Handed out, no verdict yet.
    Progressing,
    Succeeded,
    Failed,
    /// No success within the deadline.
    TimeOut,
    /// Left out on purpose.
    Skip,
}

impl RolloutStatus {
    /// Every status, in the order of the declaration.
    pub const ALL: [Self; 6] = [
        Self::ToApply,
        Self::Progressing,
        Self::Succeeded,
        Self::Failed,
        Self::TimeOut,
        Self::Skip,
    ];

    /// The word in an object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ToApply => "ToApply",
            Self::Progressing => "Progressing",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::TimeOut => "TimeOut",
            Self::Skip => "Skip",
        }
    }

    /// The status spelled so, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether it counts against `maxFailures`.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimeOut)
    }
}

impl fmt::Display for RolloutStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for RolloutStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A number of clusters, or a part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Threshold {
    Count(i64),
    /// Rounded up.
    Percent(u32),
}

/// A text that is no threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is an invalid maximum threshold value: string is not a percentage")]
pub struct ThresholdError(pub String);

impl Threshold {
    /// None at all.
    pub const ZERO: Self = Self::Count(0);

    /// How many of `total` this is; `default` when that is not between 1 and `total`.
    ///
    /// So `maxFailures: 10` of 6 clusters is 0, not 6, as it has always been; `100%` is the way to say "all".
    pub fn of(self, total: usize, default: usize) -> usize {
        let n = match self {
            Self::Count(n) => usize::try_from(n).unwrap_or(0),
            Self::Percent(percent) => {
                let n = (u128::from(percent) * total as u128).div_ceil(100);
                usize::try_from(n).unwrap_or(usize::MAX)
            }
        };
        if n == 0 || n > total { default } else { n }
    }
}

/// Reads `N%`. A bare number in quotes is refused: numbers are written as numbers.
impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        text.strip_suffix('%')
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .map(Self::Percent)
            .ok_or_else(|| ThresholdError(text.to_owned()))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// How a rollout goes from cluster to cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutStrategy {
    /// Every cluster at once.
    All(Pace),
    /// So many clusters at a time.
    Progressive(Progressive),
    /// One decision group at a time.
    ProgressivePerGroup(ProgressivePerGroup),
}

impl RolloutStrategy {
    /// The time and failure rules, whatever the type.
    pub fn pace(&self) -> &Pace {
        match self {
            Self::All(pace) => pace,
            Self::Progressive(progressive) => &progressive.pace,
            Self::ProgressivePerGroup(per_group) => &per_group.pace,
        }
    }

    /// The groups that come first; none for `All`.
    pub fn mandatory_groups(&self) -> &[GroupReference] {
        match self {
            Self::All(_) => &[],
            Self::Progressive(progressive) => &progressive.mandatory_groups,
            Self::ProgressivePerGroup(per_group) => &per_group.mandatory_groups,
        }
    }

    /// The same as [`mandatory_groups`](Self::mandatory_groups), to be rewritten in place.
    pub fn mandatory_groups_mut(&mut self) -> Option<&mut Vec<GroupReference>> {
        match self {
            Self::All(_) => None,
            Self::Progressive(progressive) => Some(&mut progressive.mandatory_groups),
            Self::ProgressivePerGroup(per_group) => Some(&mut per_group.mandatory_groups),
        }
    }

    /// The word in a manifest.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::All(_) => "All",
            Self::Progressive(_) => "Progressive",
            Self::ProgressivePerGroup(_) => "ProgressivePerGroup",
        }
    }
}

impl Default for RolloutStrategy {
    fn default() -> Self {
        Self::All(Pace::default())
    }
}

/// What every strategy says about time and failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// How long a cluster must have succeeded before the rollout goes on; `All` ignores it.
    pub min_success_time: SignedDuration,
    /// How long a cluster may take; `None` is for ever, zero times out at once.
    pub progress_deadline: Option<SignedDuration>,
    /// How many clusters may fail without stopping the rollout.
    pub max_failures: Threshold,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            min_success_time: SignedDuration::ZERO,
            progress_deadline: None,
            max_failures: Threshold::ZERO,
        }
    }
}

/// So many clusters at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progressive {
    pub pace: Pace,
    /// How many clusters may be in flight; none, 0 and more than there are mean all. For policies, the caller puts 1
    /// where there is none.
    pub max_concurrency: Option<Threshold>,
    /// The groups that come first, all clusters of one at once, and with no failure tolerated.
    pub mandatory_groups: Vec<GroupReference>,
}

/// One decision group at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgressivePerGroup {
    pub pace: Pace,
    /// The groups that come first, with no failure tolerated.
    pub mandatory_groups: Vec<GroupReference>,
}

/// A decision group that a strategy names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GroupReference {
    /// Every group of this name: chunks of a large group share one.
    Name(String),
    /// A negative one means no group, but people wrote it.
    Index(i32),
}

impl fmt::Display for GroupReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name:?}"),
            Self::Index(index) => write!(f, "#{index}"),
        }
    }
}

/// What distinguishes the groups of a placement. Groups are ordered by index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    pub index: u32,
    /// Empty for the clusters that no named group took.
    pub name: Arc<str>,
}

impl GroupKey {
    pub fn new(index: u32, name: impl Into<Arc<str>>) -> Self {
        Self {
            index,
            name: name.into(),
        }
    }

    /// Whether the reference means this group.
    pub fn is_meant_by(&self, reference: &GroupReference) -> bool {
        match reference {
            GroupReference::Name(name) => **name == *self.name,
            GroupReference::Index(index) => i64::from(*index) == i64::from(self.index),
        }
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index)?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        Ok(())
    }
}

/// A strategy that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RolloutStrategyError {
    #[error("incorrect rollout strategy type {0}")]
    Type(String),
    #[error("invalid timeout format")]
    DeadlineFormat,
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
}

/// Reads a `progressDeadline`: nothing, `None`, or a duration that starts with whole hours, minutes or seconds.
///
/// The schema's pattern lets more through than it seems to (`5m30s`, but also `5|`), and the duration's own grammar
/// decides about the rest; `0` and `90` have no unit and are refused by the pattern.
pub fn parse_deadline(text: &str) -> Result<Option<SignedDuration>, RolloutStrategyError> {
    if matches!(text, "" | "None") {
        return Ok(None);
    }
    let after_digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let starts_with_unit =
        after_digits.len() < text.len() && after_digits.starts_with(['h', 'm', 's', '|']);
    if !starts_with_unit && !text.ends_with("None") {
        return Err(RolloutStrategyError::DeadlineFormat);
    }
    Ok(Some(duration::parse(text)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn deadlines_are_durations_or_none() {
        let seconds = |n| Ok(Some(SignedDuration::from_secs(n)));
        let refused = Err("invalid timeout format".to_owned());
        let cases = [
            ("", Ok(None)),
            ("None", Ok(None)),
            ("0s", seconds(0)),
            ("90s", seconds(90)),
            ("5m30s", seconds(330)),
            ("2h", seconds(7200)),
            ("2d", refused.clone()),
            ("0", refused.clone()),
            ("90", refused.clone()),
            ("10g", refused.clone()),
            ("-5m", refused.clone()),
            ("none", refused),
            (
                "5|",
                Err(r#"time: unknown unit "|" in duration "5|""#.to_owned()),
            ),
            ("xNone", Err(r#"time: invalid duration "xNone""#.to_owned())),
            (
                "5m1d",
                Err(r#"time: unknown unit "d" in duration "5m1d""#.to_owned()),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(
                parse_deadline(text).map_err(|e| e.to_string()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn failure_thresholds_are_numbers_or_percentages() {
        for (text, expected) in [("25%", Some(25)), ("0%", Some(0)), ("100%", Some(100))] {
            assert_eq!(text.parse().ok(), expected.map(Threshold::Percent));
        }
        for text in ["3", "", "%", "-5%", "+5%", "1.5%", "5 %", "99999999999%"] {
            let error = text.parse::<Threshold>().unwrap_err().to_string();
            let expected = format!(
                "'{text}' is an invalid maximum threshold value: string is not a percentage"
            );
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn concurrency_is_a_number_or_a_percentage() {
        use Threshold::{Count, Percent};
        for (threshold, total, default, expected) in [
            (Count(10), 6, 0, 0),
            (Count(6), 6, 0, 6),
            (Count(-1), 6, 0, 0),
            (Count(0), 6, 6, 6),
            (Count(i64::MAX), 6, 6, 6),
            (Percent(2), 3, 0, 1),
            (Percent(25), 6, 6, 2),
            (Percent(20), 6, 0, 2),
            (Percent(100), 6, 0, 6),
            (Percent(0), 6, 6, 6),
            (Percent(u32::MAX), 6, 0, 0),
            (Percent(50), 0, 0, 0),
        ] {
            assert_eq!(
                threshold.of(total, default),
                expected,
                "{threshold} of {total}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,10}|[0-9%hms|]{0,10}") {
            let _ = (parse_deadline(&text), text.parse::<Threshold>());
        }
    }
}
