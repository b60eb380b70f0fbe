//! `polity rollout plan`: who is handed out now, who waits for whom, and what would be written.

use anyhow::Context as _;
use jiff::Timestamp;
use polity_api::policy::v1::RemediationAction;
use polity_govern::Plan;
use polity_govern::mark::{Mark, Stage};
use polity_govern::place::Decisions;
use polity_govern::plan::{Severity, Turn, Write};
use polity_runtime::clock::Clock;
use polity_source::HubManifests;
use serde::Serialize;

use crate::exit::{Exit, Hinted};
use crate::manifests::ManifestArgs;
use crate::output::{OutputArgs, Paint, columns};

/// Show the next step of a rollout: who gets the policy now, who waits for whom, who soaks or timed out
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity rollout plan limits -m policies/\n  polity rollout plan limits -n policies -m policies/ --at 2026-11-15T10:05:00Z\n  kubectl get policies,placementbindings,placements,placementdecisions \\\n      -A -o yaml | polity rollout plan limits -m -\n\nReplicas and PlacementDecisions among the files are taken as they are; without\ndecisions the placement is scheduled over the ManagedClusters among the files.\n\nExit codes: 0 fine, 1 the rollout has failed or its strategy is refused,\n2 error."
)]
pub(super) struct PlanArgs {
    /// The root policy
    name: String,
    /// Its namespace, when several have a policy of this name
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    manifests: ManifestArgs,
    /// The time of the plan instead of now, as in 2026-11-15T10:05:00Z
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RolloutPlan {
    policy: String,
    at: Timestamp,
    strategy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollout_status: Option<String>,
    breach: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// Whom the waiting clusters wait for.
    holding: Vec<String>,
    clusters: Vec<ClusterRow>,
    /// What would be written, in order; a pass is what one look decides.
    writes: Vec<WriteRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    look_again_at: Option<Timestamp>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterRow {
    cluster: String,
    placement: String,
    group: String,
    status: String,
    turn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WriteRow {
    pass: usize,
    what: &'static str,
    object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

impl PlanArgs {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let Self {
            name,
            namespace,
            manifests,
            at,
            output,
        } = self;
        if !manifests.given() {
            return Err(Hinted::new(
                "no manifests given",
                "name files or directories with -m, or - for stdin",
            )
            .into());
        }
        let now = at.unwrap_or_else(|| whole_seconds(Clock::system().now()));
        let manifests = manifests.load()?;
        let mut governance = HubManifests::read(&manifests);
        for problem in &governance.problems {
            eprintln!("{} {problem}", Paint::for_stderr().warn("warning:"));
        }
        governance.decide(now);
        let answer = answer(&mut governance, &name, namespace.as_deref(), now)?;
        output.print(&answer, |answer| table(answer, Paint::for_stdout()))?;
        let failed = answer.refused.is_some() || answer.rollout_status.as_deref() == Some("Failed");
        Ok(if failed { Exit::Findings } else { Exit::Fine })
    }
}

/// Nobody reads further than that.
pub(super) fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn answer(
    governance: &mut HubManifests,
    name: &str,
    namespace: Option<&str>,
    now: Timestamp,
) -> anyhow::Result<RolloutPlan> {
    let key = match &governance.find(name, namespace)[..] {
        [key] => key.clone(),
        [] => {
            let known: Vec<String> = governance
                .hub
                .policies
                .keys()
                .map(ToString::to_string)
                .collect();
            let hint = if known.is_empty() {
                "the files hold no root policy".to_owned()
            } else {
                format!("the files hold {}", known.join(", "))
            };
            return Err(Hinted::new(format!("there is no policy {name}"), hint).into());
        }
        several => {
            let hint = several
                .iter()
                .filter_map(|key| Some(format!("-n {}", key.namespace.as_ref()?)))
                .collect::<Vec<_>>()
                .join(" or ");
            return Err(
                Hinted::new(format!("several namespaces have a policy {name}"), hint).into(),
            );
        }
    };
    let strategy = governance.hub.policies[&key].spec.wire();
    let strategy = strategy.rollout_strategy.as_ref();
    let strategy = strategy.map_or_else(|| "none".to_owned(), |strategy| strategy.type_.clone());
    let mut writes = Vec::new();
    let mut warnings: Vec<String> = governance
        .misconfigured
        .iter()
        .map(|(placement, why)| format!("placement {placement} selects no cluster: {why}"))
        .collect();
    let mut first: Option<Plan> = None;
    let mut pass = 0;
    let settled = governance.hub.settle(&key, now, |_, plan| {
        pass += 1;
        writes.extend(plan.writes.iter().map(|write| write_row(pass, write)));
        for event in plan
            .events
            .iter()
            .filter(|event| event.severity == Severity::Warning)
        {
            if !warnings.contains(&event.message) {
                warnings.push(event.message.clone());
            }
        }
        // The last pass that handed somebody out says who it was; later ones only see them in flight.
        let hands_out = plan
            .clusters
            .values()
            .any(|cluster| cluster.turn == Turn::HandedOut);
        if hands_out {
            first = Some(plan.clone());
        }
    });
    let plan = settled?.context("the policy is among the files")?;
    let shown = first.as_ref().unwrap_or(&plan);
    if plan.clusters.is_empty() && governance.misconfigured.is_empty() {
        warnings.push(nowhere(governance).to_owned());
    }
    Ok(RolloutPlan {
        policy: key.to_string(),
        at: now,
        strategy,
        version: plan.version.as_ref().map(ToString::to_string),
        rollout_status: plan
            .root_status
            .rollout_status
            .map(|status| status.to_string()),
        breach: plan.breach,
        refused: plan.refused.clone(),
        holding: plan.holding.iter().map(ToString::to_string).collect(),
        clusters: cluster_rows(shown, &plan),
        writes,
        look_again_at: plan.look_again_at,
        warnings,
    })
}

/// Why a policy goes nowhere.
fn nowhere(governance: &HubManifests<'_>) -> &'static str {
    let nobody = |decisions: &Decisions| decisions.groups.n_clusters() == 0;
    let decided = &governance.hub.decisions;
    if decided.is_empty() {
        "the files hold no placement, so the policy goes nowhere"
    } else if !decided.iter().all(nobody) {
        "no binding joins the policy to a placement that has clusters, or the policy is disabled"
    } else if governance.n_clusters() == 0 {
        "the files hold neither ManagedClusters nor PlacementDecisions, so there is nobody to choose"
    } else {
        "the placements choose nobody: polity placement explain says why"
    }
}

fn cluster_rows(shown: &Plan, last: &Plan) -> Vec<ClusterRow> {
    let mut rows: Vec<_> = shown.clusters.iter().collect();
    rows.sort_by(|a, b| (a.1.group.index, a.0).cmp(&(b.1.group.index, b.0)));
    rows.into_iter()
        .map(|(cluster, entry)| ClusterRow {
            cluster: cluster.to_string(),
            placement: entry.placement.clone(),
            group: entry.group.to_string(),
            status: entry.status.to_string(),
            turn: turn(&entry.turn, last),
            since: entry.since,
        })
        .collect()
}

fn turn(turn: &Turn, plan: &Plan) -> String {
    match turn {
        Turn::FirstPass => "gets the newest text".to_owned(),
        Turn::Unwritable { why } => format!("cannot be written: {why}"),
        Turn::Waiting if plan.refused.is_some() => "waits: the strategy is refused".to_owned(),
        Turn::Waiting if plan.breach => {
            format!("waits: too many failures ({})", some(&plan.holding))
        }
        Turn::Waiting => format!("waits for {}", some(&plan.holding)),
        Turn::HandedOut => "is handed out now".to_owned(),
        Turn::Running { deadline: None } => "in flight, without a deadline".to_owned(),
        Turn::Running { deadline: Some(at) } => format!("in flight until {at}"),
        Turn::Soaking { until } => format!("soaks until {until}"),
        Turn::Done => "done".to_owned(),
        Turn::Failed => "does not comply".to_owned(),
        Turn::TimedOut { at } => format!("timed out at {at}"),
    }
}

/// A few names, and how many more there are.
pub(super) fn some<T: ToString>(names: &[T]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = names.iter().take(SHOWN).map(ToString::to_string).collect();
    match names.len() {
        0 => "its turn".to_owned(),
        n if n > SHOWN => format!("{} and {} more", shown.join(", "), n - SHOWN),
        _ => shown.join(", "),
    }
}

fn write_row(pass: usize, write: &Write) -> WriteRow {
    let (what, object, detail) = match write {
        Write::Create(replica) | Write::Update(replica) => {
            let what = if matches!(write, Write::Create(_)) {
                "create"
            } else {
                "update"
            };
            let action = replica.spec.wire().remediation_action;
            let action = action.map_or("actions of the templates", RemediationAction::as_str);
            let mut detail = action.to_owned();
            if let Some(mark) = Mark::read(&replica.annotations) {
                let stage = match mark.step.stage {
                    Stage::Wait => "waits",
                    Stage::Final => "final",
                };
                detail = format!(
                    "{detail}, {stage}, {} since {}",
                    mark.phase.as_str(),
                    mark.since
                );
            }
            (
                what,
                format!("{}/{}", replica.namespace, replica.name),
                detail,
            )
        }
        Write::Delete { cluster, name } => ("delete", format!("{cluster}/{name}"), String::new()),
        Write::ShowStatus {
            cluster,
            name,
            status,
        } => (
            "status",
            format!("{cluster}/{name}"),
            format!("rolloutStatus: {status}"),
        ),
    };
    WriteRow {
        pass,
        what,
        object,
        detail,
    }
}

fn table(answer: &RolloutPlan, paint: Paint) -> String {
    let status = answer.rollout_status.as_deref().unwrap_or("no cluster");
    let status = paint_status(status, paint);
    let mut text = format!(
        "{}  {status}  strategy {}",
        paint.bold(&answer.policy),
        answer.strategy
    );
    if let Some(version) = &answer.version {
        text.push_str(&format!("  version {version}"));
    }
    text.push_str(&format!("  at {}\n", answer.at));
    if let Some(why) = &answer.refused {
        text.push_str(&paint.bad(&format!("the strategy is refused: {why}\n")));
    }
    if answer.breach {
        text.push_str(
            &paint.bad("more failures than maxFailures tolerates: nobody further is handed out\n"),
        );
    }
    if !answer.clusters.is_empty() {
        let mut rows = vec![
            ["CLUSTER", "GROUP", "STATUS", "NEXT"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(answer.clusters.iter().map(|row| {
            vec![
                row.cluster.clone(),
                format!("{} {}", row.placement, row.group),
                paint_status(&row.status, paint),
                row.turn.clone(),
            ]
        }));
        text.push('\n');
        text.push_str(&columns(&rows));
    }
    if !answer.writes.is_empty() {
        let mut rows = vec![
            ["PASS", "WRITE", "OBJECT", "WITH"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(answer.writes.iter().map(|row| {
            vec![
                row.pass.to_string(),
                row.what.to_owned(),
                row.object.clone(),
                row.detail.clone(),
            ]
        }));
        text.push('\n');
        text.push_str(&columns(&rows));
    }
    text.push('\n');
    match answer.look_again_at {
        Some(at) => text.push_str(&format!("next look at {at}, or when a cluster reports\n")),
        None => text.push_str("next look when a cluster reports\n"),
    }
    for warning in &answer.warnings {
        text.push_str(&format!("{} {warning}\n", paint.warn("warning:")));
    }
    text
}

pub(super) fn paint_status(status: &str, paint: Paint) -> String {
    match status {
        "Succeeded" => paint.good(status),
        "Failed" | "TimeOut" => paint.bad(status),
        "Progressing" => paint.warn(status),
        _ => status.to_owned(),
    }
}

#[cfg(test)]
mod tests;
