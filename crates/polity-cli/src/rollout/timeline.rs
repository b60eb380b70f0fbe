//! A timeline on a terminal: for each moment what happened, and a line for each group. The commands on a live hub
//! use the same symbols and words.

use std::collections::{BTreeMap, BTreeSet};

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

/// What became of a cluster; nothing where it is gone.
pub(super) type Change = (String, Option<Mark>);

/// Renders a timeline.
pub(super) fn render(timeline: &Timeline, paint: Paint) -> String {
    let mut groups: BTreeMap<GroupKey, BTreeMap<String, Mark>> = BTreeMap::new();
    let layout = Layout::of(timeline);
    let mut text = String::new();
    for moment in &timeline.moments {
        text.push_str(&head(moment, timeline.start, paint));
        let touched = apply(&mut groups, &moment.clusters);
        for (key, changes) in touched {
            if let Some(clusters) = groups.get(&key) {
                text.push_str(&layout.line(&key, clusters, &changes, paint));
            }
        }
    }
    text.push_str(&verdict(timeline, paint));
    text.push_str(&format!("\n{}\n", legend(paint)));
    text
}

/// How wide the columns of the lines of groups are.
struct Layout {
    title: usize,
    symbols: usize,
}

impl Layout {
    /// Groups with more clusters than this push what follows to the right.
    const ALIGNED: usize = 12;

    fn of(timeline: &Timeline) -> Self {
        let mut members: BTreeMap<GroupKey, BTreeSet<&str>> = BTreeMap::new();
        for change in timeline.moments.iter().flat_map(|moment| &moment.clusters) {
            let group = members.entry(key_of(change)).or_default();
            group.insert(change.cluster.as_str());
        }
        let titles = members.keys().map(|key| title(key).chars().count());
        let sizes = members.values().map(BTreeSet::len);
        let aligned = sizes.filter(|size| *size <= Self::ALIGNED);
        Self {
            title: titles.max().unwrap_or_default(),
            symbols: aligned.max().unwrap_or_default(),
        }
    }

    fn line(
        &self,
        key: &GroupKey,
        clusters: &BTreeMap<String, Mark>,
        changes: &[Change],
        paint: Paint,
    ) -> String {
        // Colours have letters too, so the symbols are counted by the clusters.
        let gap = " ".repeat(self.symbols.saturating_sub(clusters.len()));
        format!(
            "  {:<width$}  {}{gap}  {}\n",
            title(key),
            drawn(clusters, paint),
            told(changes),
            width = self.title
        )
    }
}

fn key_of(change: &ClusterChange) -> GroupKey {
    (
        change.policy.clone(),
        change.placement.clone(),
        change.group_index,
        change.group_name.clone(),
    )
}

fn title((_, placement, index, name): &GroupKey) -> String {
    format!("{placement} #{index} {name}").trim_end().to_owned()
}

/// What a cluster looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
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

    /// What so many clusters do.
    const fn word(self, n: usize) -> &'static str {
        match self {
            Self::Waiting if n == 1 => "waits",
            Self::Waiting => "wait",
            Self::Running => "in flight",
            Self::Soaking if n == 1 => "soaks",
            Self::Soaking => "soak",
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
) -> BTreeMap<GroupKey, Vec<Change>> {
    let mut touched: BTreeMap<GroupKey, Vec<Change>> = BTreeMap::new();
    for change in changes {
        let name = change.cluster.to_string();
        for ((policy, ..), clusters) in groups.iter_mut() {
            if *policy == change.policy {
                clusters.remove(&name);
            }
        }
        let key = key_of(change);
        let mark = Mark::of(change);
        if let Some(mark) = mark {
            let clusters = groups.entry(key.clone()).or_default();
            clusters.insert(name.clone(), mark);
        }
        touched.entry(key).or_default().push((name, mark));
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

/// A symbol for each cluster, or a number for each symbol.
pub(super) fn drawn(clusters: &BTreeMap<String, Mark>, paint: Paint) -> String {
    if clusters.len() <= DRAWN {
        return clusters.values().map(|mark| mark.symbol(paint)).collect();
    }
    let counted = Mark::ALL.into_iter().filter_map(|mark| {
        let n = clusters.values().filter(|found| **found == mark).count();
        (n > 0).then(|| format!("{}{n}", mark.symbol(paint)))
    });
    counted.collect::<Vec<_>>().join(" ")
}

/// Who changed, by what became of them: `a, b succeeded; c in flight`.
pub(super) fn told(changes: &[Change]) -> String {
    let mut by_mark: BTreeMap<Option<Mark>, Vec<&str>> = BTreeMap::new();
    for (name, mark) in changes {
        by_mark.entry(*mark).or_default().push(name);
    }
    let parts = by_mark.iter().rev().map(|(mark, names)| {
        let who = match names.len() {
            n if n > NAMED => format!("{n} clusters"),
            _ => names.join(", "),
        };
        match mark {
            Some(mark) => format!("{who} {}", mark.word(names.len())),
            None => format!("{who} gone"),
        }
    });
    parts.collect::<Vec<_>>().join("; ")
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
        None => {
            let n = timeline.n_expectations;
            let expectations = if n == 1 {
                "expectation"
            } else {
                "expectations"
            };
            let (start, end) = (timeline.start, timeline.end);
            let tick = paint.good("✓");
            format!("\n{tick} {n} {expectations} held from {start} to {end}\n")
        }
    }
}

/// How long after the start, without units that say nothing: `+1h`, not `+1h0m0s`.
fn offset(at: Timestamp, start: Timestamp) -> String {
    let text = polity_core::duration::print(at.duration_since(start));
    let short = text
        .strip_suffix("m0s")
        .map(|rest| match rest.strip_suffix("h0") {
            Some(hours) => format!("{hours}h"),
            None => format!("{rest}m"),
        });
    format!("+{}", short.unwrap_or(text))
}

pub(super) fn legend(paint: Paint) -> String {
    let all = Mark::ALL.map(|mark| format!("{} {}", mark.symbol(paint), mark.word(1)));
    all.join("  ")
}
