//! One ConfigMap and everything that kubectl does to one object.

use e2e::Kubectl;

e2e::scenarios![reads_one_object_in_every_form];

/// N4, N5, U2: tables, JSON, names, jsonpath and templates of one object.
fn reads_one_object_in_every_form(k: &Kubectl) {
    k.ok("create configmap a --from-literal=x=1 --from-literal=y=2");
    let table = k.ok("get configmap a");
    assert!(
        table.starts_with("NAME   DATA   AGE\na      2      "),
        "{table}"
    );
    assert_eq!(k.ok("get cm a -o name"), "configmap/a");
    assert_eq!(k.field("cm/a", ".data.x"), "1");
    assert_eq!(k.json("get cm a")["data"]["y"], "2");
    assert_eq!(
        k.ok("get cm a -o go-template='{{.metadata.name}}-{{.kind}}'"),
        "a-ConfigMap"
    );
    assert_eq!(
        k.ok("get cm a -o custom-columns=N:.metadata.name,X:.data.x --no-headers"),
        "a     1"
    );
    assert!(k.ok("get cm a -o yaml").contains("\nkind: ConfigMap\n"));
    assert!(k.ok("get cm a --show-labels").contains("<none>"));
    assert_eq!(
        k.fails("get cm missing"),
        r#"Error from server (NotFound): configmaps "missing" not found"#
    );
    assert_eq!(k.ok("get cm missing --ignore-not-found"), "");
}
