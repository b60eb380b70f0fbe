//! Reads a policy: its targets, the stanzas of its body, and its errors. See docs/spec/attachment.md#4-2.
//!
//! A mistake never stops the engine: it makes the policy invalid, with the sentence its author will read.

use polity_core::FieldPath;
use polity_merge::schema::{default, prune, validate_at};
use serde_json::{Map, Value};

use crate::finding::{Finding, Severity};
use crate::kind::PolicyKind;
use crate::object::{ObjectRef, at, created, generation, is_deleting, list, text};
use crate::settings::{Class, Strategy};
use crate::tree::{Fate, Tree};

/// The most targets of one policy.
const MAX_TARGETS: usize = 16;
/// The most findings of one schema check that are worth a place in a message.
const MAX_REASONS: usize = 3;

/// One target reference, as written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub group: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    pub section: Option<String>,
}

/// The part of a policy's spec that contains settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BodyPart {
    Top,
    Defaults,
    Overrides,
}

/// On which side of the order of precedence a part of the body stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Direct,
    Override,
    Default,
}

/// How a part of the body meets others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Fields,
    Patch,
    Atomic,
}

/// A part of the body that takes part in the merge as one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) place: BodyPart,
    pub(crate) side: Side,
    pub(crate) mode: Mode,
    pub(crate) tree: Tree,
}

/// The order of policies at one level: by age, then by the bytes of `namespace/name`. A policy without a
/// creation time counts as newest. Kind and group only serve to order what is otherwise equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    without_time: bool,
    created: i64,
    joined: String,
    kind: String,
    group: String,
}

/// The verdict of another controller on a policy of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) controller: String,
    pub(crate) ancestor: Target,
}

/// A policy as read.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) object: ObjectRef,
    pub(crate) uid: Option<String>,
    pub(crate) generation: Option<i64>,
    pub(crate) created: Option<String>,
    pub(crate) deleting: bool,
    pub(crate) rank: Rank,
    pub(crate) targets: Vec<Target>,
    pub(crate) invalid: Option<String>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) rejections: Vec<Rejection>,
    pub(crate) lint: Vec<Finding>,
}

impl Policy {
    /// Reads a policy of a known kind.
    pub(crate) fn read(object: &Value, reference: &ObjectRef, kind: &PolicyKind) -> Self {
        let mut policy = Self {
            object: reference.clone(),
            uid: text(object, &["metadata", "uid"]).map(str::to_owned),
            generation: generation(object),
            created: text(object, &["metadata", "creationTimestamp"]).map(str::to_owned),
            deleting: is_deleting(object),
            rank: Rank::of(object, reference),
            targets: Vec::new(),
            invalid: None,
            pieces: Vec::new(),
            rejections: Vec::new(),
            lint: Vec::new(),
        };
        if !kind.managed {
            policy.rejections = rejections(object, reference, policy.generation);
        }
        let stored = as_stored(object, kind);
        let outcome = policy
            .read_targets(&stored)
            .and_then(|()| check_schema(&stored, kind))
            .and_then(|()| pieces(&stored, kind));
        match outcome {
            Ok(pieces) => policy.pieces = pieces,
            Err(message) => policy.invalid = Some(message),
        }
        policy
    }

    fn read_targets(&mut self, object: &Value) -> Result<(), String> {
        let spec = at(object, &["spec"]).and_then(Value::as_object);
        let spec = spec.ok_or("the policy has no spec")?;
        let present = |name: &str| spec.get(name).filter(|value| !value.is_null());
        let refs: Vec<&Value> = match (present("targetRef"), present("targetRefs")) {
            (Some(one), Some(_)) => {
                // Both are kept, so that the status can speak about the one that was written first.
                self.push_target(one, 0).ok();
                return Err("spec.targetRef and spec.targetRefs are both set".to_owned());
            }
            (Some(one), None) => vec![one],
            (None, Some(Value::Array(many))) => many.iter().collect(),
            (None, Some(_)) => return Err("spec.targetRefs is not a list".to_owned()),
            (None, None) if present("targetSelectors").is_some() => {
                return Err("spec.targetSelectors is set and no target reference; selectors are not evaluated".to_owned());
            }
            (None, None) => Vec::new(),
        };
        if refs.is_empty() {
            return Err("the policy has no target reference".to_owned());
        }
        let too_many = refs.len() > MAX_TARGETS;
        for (index, reference) in refs.iter().take(MAX_TARGETS).enumerate() {
            self.push_target(reference, index)?;
        }
        if too_many {
            return Err(format!(
                "{} target references; at most {MAX_TARGETS} are allowed",
                refs.len()
            ));
        }
        distinct(&self.targets)
    }

    fn push_target(&mut self, reference: &Value, index: usize) -> Result<(), String> {
        let field = |name: &str| text(reference, &[name]).filter(|value| !value.is_empty());
        let kind = field("kind").ok_or_else(|| format!("target reference {index} has no kind"))?;
        let name = field("name").ok_or_else(|| format!("target reference {index} has no name"))?;
        let group = text(reference, &["group"]);
        if group.is_none() {
            let message = format!(
                "target reference {index} of {} has no group; the core group is taken",
                self.object
            );
            self.lint.push(Finding::new(
                Severity::Info,
                "TargetGroupUnset",
                self.object.clone(),
                message,
            ));
        }
        self.targets.push(Target {
            group: group.unwrap_or("").to_owned(),
            kind: kind.to_owned(),
            namespace: field("namespace").map(str::to_owned),
            name: name.to_owned(),
            section: field("sectionName").map(str::to_owned),
        });
        Ok(())
    }
}

impl Rank {
    pub(crate) fn of(object: &Value, reference: &ObjectRef) -> Self {
        let created = created(object);
        Self {
            without_time: created.is_none(),
            created: created.unwrap_or(0),
            joined: reference.joined(),
            kind: reference.kind.clone(),
            group: reference.group.clone(),
        }
    }

    pub(crate) fn same_age(&self, other: &Self) -> bool {
        (self.without_time, self.created) == (other.without_time, other.created)
    }
}

/// Two references to one object must name distinct sections.
fn distinct(targets: &[Target]) -> Result<(), String> {
    for (index, one) in targets.iter().enumerate() {
        let same_object = |other: &&Target| {
            (&one.group, &one.kind, &one.namespace, &one.name)
                == (&other.group, &other.kind, &other.namespace, &other.name)
        };
        let clash = targets[index + 1..]
            .iter()
            .filter(same_object)
            .any(|other| {
                one.section.is_none() || other.section.is_none() || one.section == other.section
            });
        if clash {
            return Err(format!(
                "{} {} is targeted twice without distinct section names",
                one.kind, one.name
            ));
        }
    }
    Ok(())
}

/// The object as a server would hold it: unknown fields cut away, defaults filled in.
fn as_stored(object: &Value, kind: &PolicyKind) -> Value {
    let mut stored = object.clone();
    if let Some(schema) = &kind.schema {
        let targets: Vec<(&str, Option<Value>)> = ["targetRef", "targetRefs"]
            .map(|name| (name, at(object, &["spec", name]).cloned()))
            .to_vec();
        prune(schema, &mut stored);
        default(schema, &mut stored);
        // The reference is read as written: a schema that knows no `namespace` must not hide one.
        if let Some(spec) = stored.get_mut("spec").and_then(Value::as_object_mut) {
            for (name, value) in targets {
                if let Some(value) = value {
                    spec.insert(name.to_owned(), value);
                }
            }
        }
    }
    stored
}

fn check_schema(object: &Value, kind: &PolicyKind) -> Result<(), String> {
    let (Some(schema), Some(spec)) = (kind.spec_schema(), object.get("spec")) else {
        return Ok(());
    };
    let errors = validate_at(schema, spec, &FieldPath::of("spec"));
    if errors.is_empty() {
        return Ok(());
    }
    let mut message: Vec<String> = errors
        .iter()
        .take(MAX_REASONS)
        .map(ToString::to_string)
        .collect();
    if errors.len() > MAX_REASONS {
        message.push(format!("and {} more", errors.len() - MAX_REASONS));
    }
    Err(format!(
        "the spec does not fit the schema of {}: {}",
        kind.kind,
        message.join("; ")
    ))
}

/// The parts of a policy's body.
fn pieces(object: &Value, kind: &PolicyKind) -> Result<Vec<Piece>, String> {
    let mut body = at(object, &["spec"])
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    for name in ["targetRef", "targetRefs", "targetSelectors"] {
        body.remove(name);
    }
    if kind.class == Class::Direct {
        take_strategies(&mut body, kind)?;
        let tree = Tree::by_schema(&Value::Object(body), kind.spec_schema().map(AsRef::as_ref));
        return Ok(without_empty(vec![Piece {
            place: BodyPart::Top,
            side: Side::Direct,
            mode: Mode::Fields,
            tree,
        }]));
    }
    let chosen = take_strategies(&mut body, kind)?;
    let defaults = take_stanza(&mut body, "defaults", "default")?;
    let overrides = take_stanza(&mut body, "overrides", "override")?;
    let strategy = chosen.strategy.unwrap_or(kind.strategy);
    let mode = mode_of(strategy);
    let make = |place: BodyPart, side: Side, mode: Mode, value: Value| Piece {
        place,
        side,
        mode,
        tree: match mode {
            Mode::Patch => Tree::by_patch(&value),
            Mode::Fields | Mode::Atomic => {
                Tree::by_schema(&value, stanza_schema(kind, place).as_deref())
            }
        },
    };
    let top_side = match strategy {
        Strategy::PatchOverrides | Strategy::AtomicOverrides => Side::Override,
        _ => Side::Default,
    };
    let mut pieces = vec![make(BodyPart::Top, top_side, mode, Value::Object(body))];
    if let Some(value) = defaults {
        let mode = chosen.defaults.unwrap_or(mode);
        pieces.push(make(BodyPart::Defaults, Side::Default, mode, value));
    }
    if let Some(value) = overrides {
        let mode = chosen.overrides.unwrap_or(mode);
        pieces.push(make(BodyPart::Overrides, Side::Override, mode, value));
    }
    let pieces = without_empty(pieces);
    said_twice(&pieces)?;
    if pieces.len() > 1 && pieces.iter().any(|piece| piece.mode == Mode::Atomic) {
        return Err("an atomic policy has one stanza, not several".to_owned());
    }
    Ok(pieces)
}

fn without_empty(pieces: Vec<Piece>) -> Vec<Piece> {
    pieces
        .into_iter()
        .filter(|piece| !piece.tree.is_empty())
        .collect()
}

fn mode_of(strategy: Strategy) -> Mode {
    match strategy {
        Strategy::Fields => Mode::Fields,
        Strategy::PatchDefaults | Strategy::PatchOverrides => Mode::Patch,
        // A kind that spreads and does not merge: the nearest policy holds, whole.
        Strategy::AtomicDefaults | Strategy::AtomicOverrides | Strategy::None => Mode::Atomic,
    }
}

fn stanza_schema(
    kind: &PolicyKind,
    place: BodyPart,
) -> Option<std::sync::Arc<polity_merge::Schema>> {
    let spec = kind.spec_schema()?;
    let either = |a: &str, b: &str| spec.property(a).or_else(|| spec.property(b)).cloned();
    match place {
        BodyPart::Top => Some(spec.clone()),
        BodyPart::Defaults => either("defaults", "default"),
        BodyPart::Overrides => either("overrides", "override"),
    }
}

/// A stanza under either of its spellings. A field of that name that is no object is part of the body.
fn take_stanza(
    body: &mut Map<String, Value>,
    plural: &str,
    singular: &str,
) -> Result<Option<Value>, String> {
    let is_stanza =
        |body: &Map<String, Value>, name: &str| body.get(name).is_some_and(Value::is_object);
    match (is_stanza(body, plural), is_stanza(body, singular)) {
        (true, true) => Err(format!("spec.{plural} and spec.{singular} are both set")),
        (true, false) => Ok(body.remove(plural)),
        (false, true) => Ok(body.remove(singular)),
        (false, false) => Ok(None),
    }
}

/// Body fields beside a stanza count as defaults; the same field in both is a contradiction.
fn said_twice(pieces: &[Piece]) -> Result<(), String> {
    let Some(top) = pieces.iter().find(|piece| piece.place == BodyPart::Top) else {
        return Ok(());
    };
    for stanza in pieces.iter().filter(|piece| piece.place != BodyPart::Top) {
        let mut twice = None;
        stanza
            .tree
            .sourced(1)
            .fates(&top.tree, 2, &mut |path, _, fate| {
                if fate != Fate::Gone && twice.is_none() {
                    twice = Some(path.to_owned());
                }
            });
        if let Some(path) = twice {
            return Err(format!("{path} is set both in a stanza and beside it"));
        }
    }
    Ok(())
}

/// What a policy chose for itself.
#[derive(Default)]
struct Chosen {
    strategy: Option<Strategy>,
    defaults: Option<Mode>,
    overrides: Option<Mode>,
}

/// Takes the strategy fields that the kind enables out of the body.
fn take_strategies(body: &mut Map<String, Value>, kind: &PolicyKind) -> Result<Chosen, String> {
    let mut chosen = Chosen::default();
    for field in &kind.strategy_fields {
        let path: Vec<&str> = field
            .strip_prefix("spec.")
            .unwrap_or(field)
            .split('.')
            .collect();
        let (word, stanza) = match path.as_slice() {
            [name] => (body.remove(*name), None),
            [stanza, name] => {
                let inner = body.get_mut(*stanza).and_then(Value::as_object_mut);
                (inner.and_then(|inner| inner.remove(*name)), Some(*stanza))
            }
            _ => (None, None),
        };
        let Some(word) = word.filter(|word| !word.is_null()) else {
            continue;
        };
        let word = word
            .as_str()
            .map(str::to_ascii_lowercase)
            .unwrap_or_default();
        let unknown = || format!("{field} names no known strategy: {word:?}");
        match stanza {
            Some(stanza) => {
                let mode = match word.as_str() {
                    "atomic" => Mode::Atomic,
                    "merge" | "patch" => Mode::Patch,
                    _ => return Err(unknown()),
                };
                match stanza {
                    "overrides" | "override" => chosen.overrides = Some(mode),
                    _ => chosen.defaults = Some(mode),
                }
            }
            None => {
                chosen.strategy = Some(strategy_named(&word, kind.strategy).ok_or_else(unknown)?);
            }
        }
    }
    Ok(chosen)
}

/// A strategy by its name, or by `atomic` and `merge`, which keep the kind's side.
fn strategy_named(word: &str, of_kind: Strategy) -> Option<Strategy> {
    let overrides = matches!(
        of_kind,
        Strategy::AtomicOverrides | Strategy::PatchOverrides
    );
    Some(match word {
        "fields" => Strategy::Fields,
        "atomicdefaults" => Strategy::AtomicDefaults,
        "atomicoverrides" => Strategy::AtomicOverrides,
        "patchdefaults" => Strategy::PatchDefaults,
        "patchoverrides" => Strategy::PatchOverrides,
        "atomic" if overrides => Strategy::AtomicOverrides,
        "atomic" => Strategy::AtomicDefaults,
        "merge" | "patch" | "jsonmerge" if overrides => Strategy::PatchOverrides,
        "merge" | "patch" | "jsonmerge" => Strategy::PatchDefaults,
        _ => return None,
    })
}

/// Entries of others with Accepted=False for the present generation. Foreign conditions are read leniently (trap 12):
/// `observedGeneration` may be a string, and `reason` may be missing.
fn rejections(object: &Value, reference: &ObjectRef, generation: Option<i64>) -> Vec<Rejection> {
    let mut rejections = Vec::new();
    for entry in list(object, &["status", "ancestors"]) {
        let refused = list(entry, &["conditions"]).iter().any(|condition| {
            let observed = condition.get("observedGeneration");
            let observed =
                observed.and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()));
            text(condition, &["type"]) == Some("Accepted")
                && text(condition, &["status"]) == Some("False")
                && observed == generation
        });
        let name = text(entry, &["ancestorRef", "name"]);
        let (true, Some(name)) = (refused, name) else {
            continue;
        };
        let field = |field: &str| text(entry, &["ancestorRef", field]);
        let group = field("group").unwrap_or("gateway.networking.k8s.io");
        let kind = field("kind").unwrap_or("Gateway");
        rejections.push(Rejection {
            controller: text(entry, &["controllerName"])
                .unwrap_or("unknown")
                .to_owned(),
            ancestor: Target {
                group: group.to_owned(),
                kind: kind.to_owned(),
                namespace: field("namespace").map(str::to_owned).or_else(|| {
                    (kind != "GatewayClass")
                        .then(|| reference.namespace.clone())
                        .flatten()
                }),
                name: name.to_owned(),
                section: field("sectionName").map(str::to_owned),
            },
        });
    }
    rejections
}
