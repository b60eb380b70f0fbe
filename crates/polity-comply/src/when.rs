//! When a policy is evaluated again. See docs/spec/governance.md#11-1.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::policy::{ConfigurationPolicy, Interval};
use crate::status::{State, Status};

/// The least time between two evaluations of one policy.
pub const THROTTLE: Duration = Duration::from_secs(5);
/// How often a kind that is not served is looked for while watching.
pub const MISSING_KIND_RETRY: Duration = Duration::from_secs(10);

/// What happened since the last evaluation, apart from time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct News {
    /// The namespace selector selects others than before.
    pub namespaces_changed: bool,
    /// The last evaluation gave up waiting for an object to go while recreating it.
    pub recreate_timed_out: bool,
    /// Something it read has changed: an object, a list, a look-up of a template.
    pub reads_changed: bool,
}

/// When to evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Now,
    At(Timestamp),
    /// When something it read changes.
    OnChange,
    /// When its spec changes.
    Never,
}

/// Decides when a policy is evaluated next.
pub fn when(policy: &ConfigurationPolicy, status: &Status, news: News, now: Timestamp) -> When {
    let Some(last) = status.last_evaluated else {
        return When::Now;
    };
    let must = policy.generation != status.last_evaluated_generation
        || policy.deleting
        || status.state == State::Unknown
        || news.namespaces_changed
        || news.recreate_timed_out;
    if must {
        return When::Now;
    }
    match current_interval(policy, status) {
        Interval::Never => When::Never,
        Interval::Watch if news.reads_changed => When::Now,
        Interval::Watch => When::OnChange,
        Interval::Every(interval) => {
            let due = later(last, interval);
            if due <= now { When::Now } else { When::At(due) }
        }
    }
}

/// The interval of the current state; what is not known to be compliant counts as noncompliant.
pub fn current_interval(policy: &ConfigurationPolicy, status: &Status) -> Interval {
    match status.state {
        State::Compliant => policy.evaluation_interval.compliant,
        State::NonCompliant | State::Unknown | State::Terminating => {
            policy.evaluation_interval.noncompliant
        }
    }
}

/// How long to wait before evaluating again, so that one policy cannot keep everybody busy.
pub fn throttle(last_started: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let free = later(last_started?, THROTTLE);
    let wait = now.duration_until(free);
    Duration::try_from(wait).ok().filter(|wait| !wait.is_zero())
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_add(by).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(compliant: &str, noncompliant: &str) -> ConfigurationPolicy {
        ConfigurationPolicy::from_json(
            &json!({"metadata": {"name": "p", "generation": 2}, "spec": {
            "evaluationInterval": {"compliant": compliant, "noncompliant": noncompliant},
            "object-templates": []}}),
        )
        .unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// docs/spec/governance.md#11-1
    #[test]
    fn policies_are_evaluated_in_time() {
        let done = Status {
            state: State::Compliant,
            last_evaluated: Some(at(100)),
            last_evaluated_generation: 2,
            ..Status::default()
        };
        let nothing = News::default();
        let changed = News {
            reads_changed: true,
            ..nothing
        };
        let ask = |policy: &ConfigurationPolicy, status: &Status, news: News| {
            when(policy, status, news, at(130))
        };
        let watching = policy("watch", "watch");
        assert_eq!(
            ask(&watching, &Status::default(), nothing),
            When::Now,
            "never evaluated"
        );
        let older = Status {
            last_evaluated_generation: 1,
            ..done.clone()
        };
        assert_eq!(
            ask(&policy("never", "never"), &older, nothing),
            When::Now,
            "new generation"
        );
        let unknown = Status {
            state: State::Unknown,
            ..done.clone()
        };
        assert_eq!(
            ask(&policy("never", "never"), &unknown, nothing),
            When::Now,
            "compliance empty"
        );
        let deleting = ConfigurationPolicy {
            deleting: true,
            ..policy("never", "never")
        };
        assert_eq!(ask(&deleting, &done, nothing), When::Now, "being deleted");
        for news in [
            News {
                namespaces_changed: true,
                ..nothing
            },
            News {
                recreate_timed_out: true,
                ..nothing
            },
        ] {
            assert_eq!(
                ask(&policy("never", "never"), &done, news),
                When::Now,
                "{news:?}"
            );
        }
        assert_eq!(ask(&watching, &done, nothing), When::OnChange);
        assert_eq!(ask(&watching, &done, changed), When::Now);
        assert_eq!(
            ask(&policy("10s", "watch"), &done, changed),
            When::Now,
            "10 s have passed"
        );
        assert_eq!(
            ask(&policy("1m", "watch"), &done, changed),
            When::At(at(160))
        );
        assert_eq!(ask(&policy("never", "watch"), &done, changed), When::Never);
        let bad = Status {
            state: State::NonCompliant,
            ..done
        };
        assert_eq!(
            ask(&policy("watch", "45s"), &bad, nothing),
            When::At(at(145))
        );
    }

    #[test]
    fn evaluations_are_throttled() {
        assert_eq!(throttle(None, at(10)), None);
        assert_eq!(throttle(Some(at(10)), at(12)), Some(Duration::from_secs(3)));
        assert_eq!(throttle(Some(at(10)), at(15)), None);
        assert_eq!(
            throttle(Some(at(20)), at(15)),
            Some(Duration::from_secs(10)),
            "a clock that ran backwards"
        );
    }
}
