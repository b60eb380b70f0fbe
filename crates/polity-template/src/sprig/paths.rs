//! Paths with slashes; the `os…` functions are the same, as everywhere but on Windows.

use super::strings::{made, truth};
use crate::arg::text;
use crate::function::{Function, Type, function};

const T: Type = Type::Text;

pub(crate) const TABLE: &[(&str, Function)] = &[
    ("base", BASE),
    ("osBase", BASE),
    ("dir", DIR),
    ("osDir", DIR),
    ("clean", CLEAN),
    ("osClean", CLEAN),
    ("ext", EXT),
    ("osExt", EXT),
    ("isAbs", IS_ABS),
    ("osIsAbs", IS_ABS),
];

const BASE: Function = function(&[T], None, |_, v| {
    let path = text(&v[0]);
    if path.is_empty() {
        return made(".");
    }
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return made("/");
    }
    made(trimmed.rsplit('/').next().unwrap_or(trimmed))
});

const DIR: Function = function(&[T], None, |_, v| {
    let path = text(&v[0]);
    made(clean(path.rfind('/').map_or("", |at| &path[..=at])))
});

const CLEAN: Function = function(&[T], None, |_, v| made(clean(text(&v[0]))));

const EXT: Function = function(&[T], None, |_, v| {
    let last = text(&v[0]).rsplit('/').next().unwrap_or_default();
    made(last.rfind('.').map_or("", |at| &last[at..]))
});

const IS_ABS: Function = function(&[T], None, |_, v| truth(text(&v[0]).starts_with('/')));

/// The shortest path to the same place.
pub(super) fn clean(path: &str) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&"..") | None if !rooted => parts.push(".."),
                Some(_) => {
                    parts.pop();
                }
                None => {}
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}
