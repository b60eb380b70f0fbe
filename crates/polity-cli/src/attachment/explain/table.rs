//! An explanation for people: the policies, then every field with its winner and its losers.

use jiff::Timestamp;
use polity_attach::{Explanation, PolicyEntry};

use crate::attachment::text::{age, row, short};
use crate::output::{Paint, columns};

/// What is shown of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::attachment) enum Columns {
    FieldsOnly,
    Usual,
    Wide,
}

/// The head line, the policies, the fields, what is owned, and findings.
pub(in crate::attachment) fn table(
    explanation: &Explanation,
    shown: Columns,
    now: Timestamp,
    paint: Paint,
) -> String {
    let object = &explanation.object;
    let kind = if object.group.is_empty() {
        object.kind.clone()
    } else {
        format!("{}.{}", object.kind, object.group)
    };
    let name = object.namespace.as_ref().map_or_else(
        || object.name.clone(),
        |namespace| format!("{namespace}/{}", object.name),
    );
    let generation = object.generation.map_or_else(String::new, |generation| {
        format!("   generation {generation}")
    });
    let n = explanation.n_acting();
    let count = if n == 1 {
        "1 policy acts".to_owned()
    } else {
        format!("{n} policies act")
    };
    let mut out = format!(
        "{} {name}{generation}   as of {}   {count}\n",
        paint.bold(&kind),
        explanation.as_of
    );
    if explanation.policies.is_empty() {
        out.push_str(if explanation.complete {
            "no policy acts on this object\n"
        } else {
            "no policy is known to act on this object\n"
        });
    } else if shown != Columns::FieldsOnly {
        let wide = shown == Columns::Wide;
        let mut head = row(&[
            "FAMILY", "POLICY", "GEN", "MODE", "ACTS", "EFFECT", "VERDICT", "SINCE",
        ]);
        if wide {
            head.extend(row(&["WHY", "ANCESTOR", "VERSION", "AGE", "PROVENANCE"]));
        }
        let mut rows = vec![head];
        for policy in &explanation.policies {
            let mut cells = policy_row(policy, now, paint);
            if wide {
                cells.extend(wide_cells(policy, now));
            }
            rows.push(cells);
        }
        out.push_str(&columns(&rows));
        out.push('\n');
    }
    out.push_str(&fields(explanation, paint));
    out.push_str(&owned(explanation));
    for missing in &explanation.missing {
        let texts = [&missing["what"], &missing["why"]].map(serde_json::Value::as_str);
        let texts: Vec<&str> = texts.into_iter().flatten().collect();
        out.push_str(&format!(
            "{} {}\n",
            paint.warn("missing:"),
            texts.join(": ")
        ));
    }
    for finding in &explanation.findings {
        out.push_str(&format!(
            "{} {}\n",
            paint.warn(finding.code),
            finding.message
        ));
    }
    out
}

fn policy_row(policy: &PolicyEntry, now: Timestamp, paint: Paint) -> Vec<String> {
    let reference = &policy.reference.object;
    let generation = match (policy.generation.acting, policy.generation.current) {
        (Some(acting), Some(current)) if acting != current => format!("{acting}→{current}"),
        (_, Some(current)) => current.to_string(),
        (_, None) => "-".to_owned(),
    };
    vec![
        policy.family.to_owned(),
        format!("{} {}", reference.kind_and_group(), reference.path()),
        generation,
        policy.mode.to_owned(),
        if policy.acts == "yes" {
            paint.good("yes")
        } else {
            paint.warn(policy.acts)
        },
        policy.effect.text.clone(),
        policy.verdict.result.clone(),
        age(policy.created_at.as_deref(), now),
    ]
}

/// The step that decided, and where the policy comes from.
fn wide_cells(policy: &PolicyEntry, now: Timestamp) -> Vec<String> {
    let of_result = |result: &str| policy.why.iter().find(|why| why.result == result);
    let mut deciding = ["no", "pending", "depends"].into_iter();
    let deciding = deciding.find_map(of_result);
    let why = deciding.or(policy.why.last()).map_or_else(
        || "-".to_owned(),
        |why| format!("{}: {}", why.step, why.result),
    );
    let from = policy.provenance.iter().map(|from| {
        let reference = &from.reference;
        format!("{} {}/{}", from.role, reference.kind, reference.path())
    });
    let joined = |texts: Vec<String>| {
        if texts.is_empty() {
            "-".to_owned()
        } else {
            texts.join(", ")
        }
    };
    let version = policy.reference.version.as_deref().unwrap_or("-");
    vec![
        why,
        joined(policy.ancestors.clone()),
        version.to_owned(),
        age(policy.created_at.as_deref(), now),
        joined(from.collect()),
    ]
}

/// What the object owns: one line for each kind.
fn owned(explanation: &Explanation) -> String {
    let Some(entries) = &explanation.owned else {
        return String::new();
    };
    if entries.is_empty() {
        return "\nit owns nothing\n".to_owned();
    }
    let mut rows = vec![row(&["OWNED", "OBJECTS", "POLICIES"])];
    for entry in entries {
        let policies = entry.policies.iter().map(|acting| {
            let policy = &acting.policy;
            format!("{} {} ({})", policy.kind, policy.path(), acting.objects)
        });
        let policies: Vec<String> = policies.collect();
        let shown = if policies.is_empty() {
            "none act".to_owned()
        } else {
            policies.join(", ")
        };
        rows.push(vec![entry.kind.clone(), entry.objects.to_string(), shown]);
    }
    format!("\n{}", columns(&rows))
}

/// Every field: the winner, its stanza and level, then every loser with the rule that beat it.
fn fields(explanation: &Explanation, paint: Paint) -> String {
    let mut entries: Vec<(&str, bool, &PolicyEntry, &polity_attach::SettingEntry)> = explanation
        .policies
        .iter()
        .flat_map(|policy| {
            policy
                .settings
                .iter()
                .map(move |setting| (setting.field.as_str(), !setting.won, policy, setting))
        })
        .collect();
    entries.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    if entries.is_empty() {
        return String::new();
    }
    let mut rows = vec![row(&[
        "FIELD", "VALUE", "POLICY", "STANZA", "LEVEL", "CONTEXTS", "OUTCOME",
    ])];
    for (field, _, policy, setting) in entries {
        let outcome = match (&setting.beaten_by, setting.rule) {
            (Some(winner), Some(rule)) => {
                format!("overridden by {} ({})", winner.path(), rule.sentence())
            }
            (None, Some(rule)) => rule.sentence().to_owned(),
            _ => paint.good("in force"),
        };
        rows.push(vec![
            field.to_owned(),
            short(&setting.value),
            policy.reference.object.path(),
            setting.stanza.to_owned(),
            setting.level.clone(),
            setting.contexts.len().to_string(),
            outcome,
        ]);
    }
    columns(&rows)
}
