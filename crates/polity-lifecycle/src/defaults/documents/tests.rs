//! What is read, and what is not, with its place.

use super::*;

fn read(text: &str) -> Documents {
    Documents::read(
        "recommended",
        &BTreeMap::from([("p.yaml".to_owned(), text.to_owned())]),
    )
}

const HEAD: &str = "apiVersion: policies.kubewarden.io/v1\nkind: ";

#[test]
fn documents_and_lists_in_any_number() {
    let text = format!(
        "# ours\n---\n{HEAD}PolicyServer\nmetadata: {{name: s}}\n\
         --- # next\n{HEAD}AdmissionPolicy\nmetadata: {{name: p, namespace: team}}\n---\n\n---\n\
         apiVersion: v1\nkind: List\nitems:\n- apiVersion: policies.kubewarden.io/v1\n  kind: ClusterAdmissionPolicy\n  \
         metadata: {{name: a}}\n---\n\
         {HEAD}ClusterAdmissionPolicyGroupList\nitems: [{{metadata: {{name: g}}}}, {{metadata: {{name: h}}}}]\n"
    );
    let documents = read(&text);
    assert_eq!(documents.problems, []);
    let read: Vec<_> = documents
        .objects
        .iter()
        .map(|(key, document)| format!("{key} in {}", document.place))
        .collect();
    assert_eq!(
        read,
        [
            "PolicyServer s in p.yaml, document 1",
            "ClusterAdmissionPolicy a in p.yaml, document 3, item 1",
            "AdmissionPolicy team/p in p.yaml, document 2",
            "ClusterAdmissionPolicyGroup g in p.yaml, document 4, item 1",
            "ClusterAdmissionPolicyGroup h in p.yaml, document 4, item 2",
        ]
    );
    for document in documents.objects.values() {
        assert_eq!(document.body["metadata"]["labels"][LABEL], "recommended");
        assert!(document.body["kind"].is_string() && document.body["apiVersion"].is_string());
    }
}

#[test]
fn what_cannot_be_used_is_named_with_its_place() {
    let good = format!("{HEAD}PolicyServer\nmetadata: {{name: s}}\n");
    for (case, text, is_unreadable, words) in [
        ("no YAML", "a: [".to_owned(), true, "it is not YAML"),
        ("a bomb", bomb(), true, "it is not YAML"),
        ("no object", "- 1".to_owned(), true, "it is no object"),
        (
            "no kind",
            "apiVersion: v1".to_owned(),
            true,
            "no apiVersion or no kind",
        ),
        (
            "foreign kind",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: x}".to_owned(),
            false,
            "Secret of v1 is no policy",
        ),
        (
            "foreign version",
            "apiVersion: policies.kubewarden.io/v9\nkind: PolicyServer".to_owned(),
            false,
            "is no policy",
        ),
        (
            "a list without items",
            "apiVersion: v1\nkind: List\nitem: []".to_owned(),
            true,
            "has no items",
        ),
        (
            "a revision",
            format!("{HEAD}PolicyRevision\nmetadata: {{name: r}}"),
            false,
            "is no policy",
        ),
        (
            "no metadata",
            format!("{HEAD}PolicyServer"),
            true,
            "no metadata",
        ),
        (
            "no name",
            format!("{HEAD}PolicyServer\nmetadata: {{}}"),
            true,
            "has no name",
        ),
        (
            "no namespace",
            format!("{HEAD}AdmissionPolicy\nmetadata: {{name: p}}"),
            true,
            "AdmissionPolicy p names no namespace",
        ),
        (
            "one namespace too many",
            format!("{HEAD}PolicyServer\nmetadata: {{name: p, namespace: team}}"),
            true,
            "is cluster-wide",
        ),
        (
            "a name that YAML takes for something else",
            format!("{HEAD}AdmissionPolicy\nmetadata: {{name: p, namespace: no}}"),
            true,
            "namespace of the AdmissionPolicy is no text",
        ),
        (
            "labels of another shape",
            format!("{HEAD}PolicyServer\nmetadata: {{name: p, labels: [a]}}"),
            true,
            "labels are no map",
        ),
        (
            "twice",
            good.clone(),
            false,
            "stands in p.yaml, document 1 already",
        ),
    ] {
        let documents = read(&format!("{good}---\n{text}"));
        assert_eq!(documents.objects.len(), 1, "{case}: the other goes on");
        let [problem] = &documents.problems[..] else {
            panic!("{case}: {documents:?}");
        };
        assert_eq!(problem.place, "p.yaml, document 2", "{case}");
        assert!(problem.reason.contains(words), "{case}: {}", problem.reason);
        assert_eq!(documents.has_unreadable, is_unreadable, "{case}");
    }
}

/// Nine levels of nine aliases each.
fn bomb() -> String {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(",");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    text
}
