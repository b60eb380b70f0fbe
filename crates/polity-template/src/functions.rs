//! Which functions there are on which side.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::builtins;
use crate::function::{Call, Function, Type};
use crate::governance;
use crate::rules::{Rules, Side};
use crate::sprig;

/// Functions by name. Functions of policies take precedence over sprig, and sprig takes precedence over the language.
type Table = HashMap<&'static str, &'static Function>;

static PLAIN: LazyLock<Table> = LazyLock::new(|| {
    let mut table: Table = HashMap::new();
    let tables = std::iter::once(&builtins::TABLE).chain(sprig::TABLES);
    for (name, function) in tables
        .chain([&governance::yaml::TABLE])
        .flat_map(|table| *table)
    {
        table.insert(name, function);
    }
    table
});

static MANAGED: LazyLock<Table> = LazyLock::new(|| {
    let mut table = PLAIN.clone();
    for (name, function) in governance::TABLES.iter().flat_map(|table| *table) {
        table.insert(name, function);
    }
    table
});

static HUB: LazyLock<Table> = LazyLock::new(|| {
    let mut table = MANAGED.clone();
    table.remove("skipObject");
    table.insert("getHostByName", &RISKY);
    table
});

const RISKY: Function = Function {
    parameters: &[],
    rest: Some(Type::Any),
    call: Call::Refused(|name| {
        format!(
            "use of denylisted template function: function '{name}' is considered a security risk"
        )
    }),
};

const DENIED: Function = Function {
    parameters: &[],
    rest: Some(Type::Any),
    call: Call::Refused(|name| {
        format!("use of denylisted template function: function '{name}' is not allowed")
    }),
};

fn table(side: Side) -> &'static Table {
    match side {
        Side::Plain => &PLAIN,
        Side::Managed => &MANAGED,
        Side::Hub => &HUB,
    }
}

/// The function that this name has under these rules.
pub(crate) fn find(rules: &Rules, name: &str) -> Option<&'static Function> {
    let found = table(rules.side).get(name).copied();
    match found {
        Some(function) if !matches!(function.call, Call::Refused(_)) => {
            let denied = rules.denied_functions.iter().any(|denied| denied == name);
            Some(if denied { &DENIED } else { function })
        }
        found => found,
    }
}

/// The names of all functions of a side, in order.
pub fn names(side: Side) -> Vec<&'static str> {
    let mut names: Vec<&str> = table(side).keys().copied().collect();
    names.sort_unstable();
    names
}
