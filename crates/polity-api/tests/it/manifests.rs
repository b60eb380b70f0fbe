//! What lies in `config/crd/` is what the types say.

use std::collections::BTreeSet;
use std::path::Path;

use polity_api::crd::{all, to_yaml};

const MEND: &str = "config/crd is stale: run `cargo xtask generate` and commit what it writes";

#[test]
fn config_crd_is_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd");
    let mut expected_names = BTreeSet::new();
    for crd in all() {
        let name = format!("{}.yaml", crd.metadata.name.as_deref().unwrap());
        let found = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(found == to_yaml(&crd), "{name}: {MEND}");
        expected_names.insert(name);
    }
    let entries = std::fs::read_dir(&folder).unwrap();
    let names: BTreeSet<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, expected_names, "{MEND}");
}

#[test]
fn yaml_reads_back_as_the_same_definition() {
    for crd in all() {
        let read_back: serde_json::Value = serde_saphyr::from_str(&to_yaml(&crd)).unwrap();
        let typed = serde_json::from_value(read_back).unwrap();
        assert_eq!(crd, typed, "{:?}", crd.metadata.name);
    }
}
