//! One run of a template: its remaining budget, its observations, and its rules.

use std::collections::BTreeMap;
use std::rc::Rc;

use regex::Regex;

use crate::function::Failure;
use crate::host::Host;
use crate::rules::Rules;
use crate::value::Value;

/// How far a template may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of output, and of any text on the way there.
    pub output: usize,
    /// Evaluation steps: one for each action, argument and turn of a loop, more for functions that work
    /// hard, and one for each few bytes that a function reads or makes.
    pub steps: u64,
    /// Templates calling templates.
    pub calls: usize,
}

impl Default for Limits {
    /// The limits of the reference implementation for one definition.
    fn default() -> Self {
        Self {
            output: 1 << 20,
            steps: 1_000_000,
            calls: 100,
        }
    }
}

/// The results of a run besides its output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noticed {
    /// Secret data was read: texts and diffs made from the result are not to be shown.
    pub sensitive: bool,
    /// Secrets read by `lookup`, as `namespace/name`: their content is not encrypted.
    pub plain_secrets: Vec<String>,
    /// `skipObject` excluded this object.
    pub skip_object: bool,
    /// The template used a function with a different result each time: clock, randomness, keys.
    pub volatile: bool,
}

/// The state of one run that functions see.
pub(crate) struct Run<'r> {
    pub(crate) host: &'r dyn Host,
    pub(crate) rules: &'r Rules,
    pub(crate) limits: Limits,
    pub(crate) noticed: Noticed,
    /// The template itself holds decrypted values: errors must not quote it.
    pub(crate) hides_source: bool,
    steps: u64,
    patterns: BTreeMap<Rc<str>, Rc<Regex>>,
    looked_up: BTreeMap<Box<str>, Value>,
}

/// Bytes read by a function for one step, and bytes made by it.
const READ_PER_STEP: usize = 64;
const MADE_PER_STEP: usize = 64;
/// Elements read or made for one step.
const ELEMENTS_PER_STEP: usize = 8;
/// Steps for reading a pattern that was not read yet.
const PATTERN_STEPS: u64 = 1_000;
/// Memory that one pattern may need.
const PATTERN_SIZE: usize = 256 * 1024;

impl<'r> Run<'r> {
    pub(crate) fn new(host: &'r dyn Host, rules: &'r Rules, limits: Limits) -> Self {
        Self {
            host,
            rules,
            limits,
            noticed: Noticed::default(),
            hides_source: false,
            steps: 0,
            patterns: BTreeMap::new(),
            looked_up: BTreeMap::new(),
        }
    }

    /// Spends steps.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Failure> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.limits.steps {
            return Err(exceeded(&format!("{} evaluation steps", self.limits.steps)));
        }
        Ok(())
    }

    /// Spends steps for the arguments of a function.
    pub(crate) fn spend_on_arguments(&mut self, arguments: &[Value]) -> Result<(), Failure> {
        let cost: usize = arguments
            .iter()
            .map(|value| weight(value, READ_PER_STEP))
            .sum();
        self.spend(cost as u64)
    }

    /// Spends steps for the result of a function, and refuses a text that is too long.
    pub(crate) fn spend_on_result(&mut self, result: &Value) -> Result<(), Failure> {
        if let Value::Text(text) = result {
            self.fits(text.len())?;
        }
        self.spend(weight(result, MADE_PER_STEP) as u64)
    }

    /// Refuses a text of this many bytes if it is too long. Must be called before the text is created.
    pub(crate) fn fits(&self, n_bytes: usize) -> Result<(), Failure> {
        if n_bytes > self.limits.output {
            return Err(exceeded(&bytes(self.limits.output, "of output")));
        }
        Ok(())
    }

    /// The compiled pattern, from a cache.
    pub(crate) fn pattern(&mut self, pattern: &Rc<str>) -> Result<Rc<Regex>, Failure> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(known.clone());
        }
        self.spend(PATTERN_STEPS)?;
        let read = regex::RegexBuilder::new(pattern)
            .size_limit(PATTERN_SIZE)
            .build()
            .map_err(|error| crate::sprig::regex::error_text(pattern, &error))?;
        let read = Rc::new(read);
        self.patterns.insert(pattern.clone(), read.clone());
        Ok(read)
    }

    /// Computes a value once. Later calls return the same value.
    pub(crate) fn once(
        &mut self,
        key: String,
        ask: impl FnOnce(&mut Self) -> Result<Value, Failure>,
    ) -> Result<Value, Failure> {
        if let Some(known) = self.looked_up.get(key.as_str()) {
            // A template may change the maps that it gets, so each caller gets a copy.
            return known.deep_copy(0).ok_or_else(too_deep);
        }
        let answer = ask(self)?;
        let kept = answer.deep_copy(0).ok_or_else(too_deep)?;
        self.looked_up.insert(key.into(), kept);
        Ok(answer)
    }

    pub(crate) fn random_bytes<const N: usize>(&mut self) -> [u8; N] {
        self.noticed.volatile = true;
        let mut bytes = [0; N];
        self.host.random(&mut bytes);
        bytes
    }

    /// A random number below `bound`, which is not zero.
    pub(crate) fn random_below(&mut self, bound: u64) -> u64 {
        // 128 bits against at most 64: the bias is too small to measure.
        let number = u128::from_le_bytes(self.random_bytes());
        (number % u128::from(bound)) as u64
    }

    pub(crate) fn now(&mut self) -> jiff::Zoned {
        self.noticed.volatile = true;
        self.host.now()
    }
}

fn weight(value: &Value, bytes_per_step: usize) -> usize {
    match value {
        Value::Text(text) => text.len() / bytes_per_step,
        Value::List(list) => list.items.len() / ELEMENTS_PER_STEP,
        Value::Map(map) => map.len() / ELEMENTS_PER_STEP,
        _ => 0,
    }
}

pub(crate) fn exceeded(what: &str) -> Failure {
    Failure::Limit(format!("template exceeded its limit of {what}"))
}

pub(crate) fn too_deep() -> Failure {
    exceeded(&format!("{} nested values", crate::value::DEEPEST))
}

fn bytes(limit: usize, what: &str) -> String {
    if limit >= 1 << 20 && limit.is_multiple_of(1 << 20) {
        format!("{} MiB {what}", limit >> 20)
    } else {
        format!("{limit} bytes {what}")
    }
}
