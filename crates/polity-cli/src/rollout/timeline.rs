//! A timeline on a terminal: for each moment what happened, and a line for each group.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_govern::simulate::{ClusterChange, Moment, Timeline};

use super::plan::paint_status;
use crate::output::Paint;

/// More clusters than this in a group are counted, not drawn.
const DRAWN: usize = 60;
/// More changed clusters than this are not named.
const NAMED: usize = 6;

/// A group of one policy: placement, index, name.
type GroupKey = (String, String, u32, String);

/// Renders a timeline.
pub(super) fn render(timeline: &Timeline, paint: Paint) -> String {
    let mut groups: BTreeMap<GroupKey, BTreeMap<String, Mark>> = BTreeMap::new();
    let mut text = String::new();
    for moment in &timeline.moments {
        text.push_str(&head(moment, timeline.start, paint));
        let touched = apply(&mut groups, &moment.clusters);
        for (key, changed) in touched {
            if let Some(clusters) = groups.get(&key) {
                text.push_str(&line(&key, clusters, &changed, paint));
            }
        }
    }
    text.push_str(&verdict(timeline, paint));
    text.push_str(&format!("\n{}\n", legend(paint)));
    text
}

/// What a cluster looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Waiting,
    Running,
    Soaking,
    Done,
    Failed,
    TimedOut,
}

impl Mark {
    const ALL: [Self; 6] = [
        Self::Waiting,
        Self::Running,
        Self::Soaking,
        Self::Done,
        Self::Failed,
        Self::TimedOut,
    ];

    fn of(change: &ClusterChange) -> Option<Self> {
        Some(match change.status.as_deref()? {
            "ToApply" => Self::Waiting,
            "Succeeded" if change.soaking => Self::Soaking,
            "Succeeded" => Self::Done,
            "Failed" => Self::Failed,
            "TimeOut" => Self::TimedOut,
            _ => Self::Running,
        })
    }

    fn symbol(self, paint: Paint) -> String {
        match self {
            Self::Waiting => "·".to_owned(),
            Self::Running => paint.warn("▸"),
            Self::Soaking => paint.good("◐"),
            Self::Done => paint.good("●"),
            Self::Failed => paint.bad("✗"),
            Self::TimedOut => paint.bad("⧖"),
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waits",
            Self::Running => "in flight",
            Self::Soaking => "soaks",
            Self::Done => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
        }
    }
}

/// Takes the changes over; answers which groups they touch, with the clusters that changed.
fn apply(
    groups: &mut BTreeMap<GroupKey, BTreeMap<String, Mark>>,
    changes: &[ClusterChange],
) -> BTreeMap<GroupKey, Vec<String>> {
    let mut touched: BTreeMap<GroupKey, Vec<String>> = BTreeMap::new();
    for change in changes {
        let name = change.cluster.to_string();
        for ((policy, ..), clusters) in groups.iter_mut() {
            if *policy == change.policy {
                clusters.remove(&name);
            }
        }
        let key = (
            change.policy.clone(),
            change.placement.clone(),
            change.group_index,
            change.group_name.clone(),
        );
        let told = match Mark::of(change) {
            Some(mark) => {
                groups
                    .entry(key.clone())
                    .or_default()
                    .insert(name.clone(), mark);
                format!("{name} {}", mark.word())
            }
            None => format!("{name} gone"),
        };
        touched.entry(key).or_default().push(told);
    }
    groups.retain(|key, clusters| !clusters.is_empty() || touched.contains_key(key));
    touched
}

fn head(moment: &Moment, start: Timestamp, paint: Paint) -> String {
    let mut text = format!(
        "{}  {}",
        paint.bold(&moment.at.to_string()),
        offset(moment.at, start)
    );
    for root in &moment.roots {
        let status = root.rollout_status.as_deref().unwrap_or("no cluster");
        text.push_str(&format!(
            "  {} {}",
            root.policy,
            paint_status(status, paint)
        ));
        if let Some(compliant) = &root.compliant {
            text.push_str(&format!(" ({compliant})"));
        }
        if root.breach {
            text.push_str(&paint.bad(" breach"));
        }
    }
    text.push('\n');
    for event in &moment.events {
        text.push_str(&format!("  » {event}\n"));
    }
    for warning in &moment.warnings {
        text.push_str(&format!("  {} {warning}\n", paint.warn("!")));
    }
    text
}

fn line(
    key: &GroupKey,
    clusters: &BTreeMap<String, Mark>,
    changed: &[String],
    paint: Paint,
) -> String {
    let (_, placement, index, name) = key;
    let title = format!("{placement} #{index} {name}");
    let drawn = if clusters.len() <= DRAWN {
        clusters
            .values()
            .map(|mark| mark.symbol(paint))
            .collect::<String>()
    } else {
        let counted = Mark::ALL.into_iter().map(|mark| {
            (
                mark,
                clusters.values().filter(|found| **found == mark).count(),
            )
        });
        let counts = counted
            .filter(|(_, n)| *n > 0)
            .map(|(mark, n)| format!("{}{n}", mark.symbol(paint)));
        counts.collect::<Vec<_>>().join(" ")
    };
    let told = match changed.len() {
        n if n > NAMED => format!("{n} clusters"),
        _ => changed.join(", "),
    };
    format!("  {:<24} {drawn}   {told}\n", title.trim_end())
}

fn verdict(timeline: &Timeline, paint: Paint) -> String {
    match &timeline.broken {
        Some(broken) => format!(
            "\n{} at {} ({}): expect[{}]: {}\n",
            paint.bad("✗ broken"),
            broken.at,
            offset(broken.at, timeline.start),
            broken.index,
            broken.message
        ),
        None => format!(
            "\n{} {} expectations held from {} to {}\n",
            paint.good("✓"),
            timeline.n_expectations,
            timeline.start,
            timeline.end
        ),
    }
}

fn offset(at: Timestamp, start: Timestamp) -> String {
    format!(
        "+{}",
        polity_core::duration::print(at.duration_since(start))
    )
}

fn legend(paint: Paint) -> String {
    let all = Mark::ALL.map(|mark| format!("{} {}", mark.symbol(paint), mark.word()));
    all.join("  ")
}
