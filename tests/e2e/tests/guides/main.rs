//! Executes the README and the guides as they are written, and compares what the commands print.
//!
//! A page is a list of [`page::Step`]s, run in one bash with a home of its own. The conventions for pages are in
//! `CONTRIBUTING.md`.

#![expect(
    clippy::unwrap_used,
    reason = "running a page is a test, also where it is a plain function"
)]

mod compare;
mod limits;
mod page;
mod run;
mod shell;
mod variables;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use run::check;

/// One test for each page, and a list of all of them.
macro_rules! pages {
    ($($test:ident: $path:literal),+ $(,)?) => {
        const PAGES: &[&str] = &[$($path),+];
        $(#[test] fn $test() { check($path); })+
    };
}

pages! {
    readme: "README.md",
    dryrun: "docs/guides/dryrun.md",
    install: "docs/guides/install.md",
    local_clusters: "docs/guides/local-clusters.md",
    make_a_policy_kind: "docs/guides/make-a-policy-kind.md",
    placements: "docs/guides/placements.md",
    policy_lifecycle: "docs/guides/policy-lifecycle.md",
    read_reports: "docs/guides/read-reports.md",
    run_a_policy_server: "docs/guides/run-a-policy-server.md",
    templates: "docs/guides/templates.md",
    try_a_rollout: "docs/guides/try-a-rollout.md",
    write_a_policy: "docs/guides/write-a-policy.md",
}

fn is_page(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new("md"))
}

/// The folder of this repository.
fn repository() -> &'static Path {
    let e2e = Path::new(env!("CARGO_MANIFEST_DIR"));
    e2e.ancestors().nth(2).unwrap_or(e2e)
}

#[test]
fn every_guide_is_executed() {
    let folder = fs::read_dir(repository().join("docs/guides")).unwrap();
    for entry in folder {
        let name = entry.unwrap().file_name();
        if !is_page(&name) {
            continue;
        }
        let path = format!("docs/guides/{}", name.display());
        assert!(
            PAGES.contains(&path.as_str()),
            "{path} is not in the list of pages"
        );
    }
}

#[test]
fn the_readme_lists_every_page() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let folders = ["docs", "docs/guides", "docs/reference", "docs/design"];
    for folder in folders {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let name = entry.unwrap().file_name();
            let path = format!("{folder}/{}", name.display());
            assert!(
                !is_page(&name) || readme.contains(&format!("]({path})")),
                "README.md does not link to {path}"
            );
        }
    }
}
