//! Identity, permissions and impersonation.

use e2e::Kubectl;

e2e::scenarios![
    reports_identity_and_permissions,
    acts_as_another_user,
    acts_with_a_service_accounts_token,
    users_cannot_grant_what_they_lack,
];

/// The administrator may do everything.
fn reports_identity_and_permissions(k: &Kubectl) {
    let me = k.json("auth whoami");
    let groups = me["status"]["userInfo"]["groups"].as_array().unwrap();
    assert!(groups.iter().any(|group| group == "system:masters"), "{me}");
    for question in [
        "create pods",
        "get deployments.apps --subresource=scale",
        "get /metrics",
        "'*' '*'",
    ] {
        assert_eq!(k.ok(&format!("auth can-i {question}")), "yes", "{question}");
    }
    let list = k.ok("auth can-i --list");
    assert!(list.contains("*.*") && list.contains("[*]"), "{list}");
    let unknown = k.run("auth can-i frobnicate nothings", "");
    assert!(
        unknown
            .stderr
            .contains("the server doesn't have a resource type 'nothings'"),
        "{unknown:?}"
    );
}

/// Roles and bindings apply to an impersonated user and group.
fn acts_as_another_user(k: &Kubectl) {
    let user = format!("jane-{}", k.namespace());
    let jane = k.with(&format!("--as {user}"));
    let no = jane.run("auth can-i list pods", "");
    assert_eq!((no.code, no.stdout.as_str()), (Some(1), "no\n"), "{no:?}");
    let forbidden = jane.fails("get pods");
    let expected = format!(
        r#"Error from server (Forbidden): pods is forbidden: User "{user}" cannot list resource "pods" in API group "" in the namespace "{}""#,
        k.namespace()
    );
    assert_eq!(forbidden, expected);

    k.ok("create role reader --verb=get,list --resource=pods,configmaps");
    k.ok(&format!(
        "create rolebinding readers --role=reader --user={user}"
    ));
    k.ok("create configmap a");
    allowed(&jane, "list pods");
    jane.ok("get configmap a");
    let write = jane.fails("create configmap b");
    assert!(
        write.contains(&format!(
            r#"configmaps is forbidden: User "{user}" cannot create resource "configmaps""#
        )),
        "{write}"
    );
    let elsewhere = jane.run("auth can-i list pods -A", "");
    assert_eq!(elsewhere.stdout, "no\n", "{elsewhere:?}");
    assert!(jane.ok("auth can-i --list").contains("pods"));

    let group = k.with("--as someone --as-group crew");
    k.ok("create rolebinding crew --clusterrole=edit --group=crew");
    allowed(&group, "create deployments.apps");
    group.ok("create configmap by-crew");
    let me = group.json("auth whoami");
    assert_eq!(me["status"]["userInfo"]["username"], "someone");
}

/// A token has the identity and the permissions of its ServiceAccount.
fn acts_with_a_service_accounts_token(k: &Kubectl) {
    k.ok("create serviceaccount robot");
    let token = k.ok("create token robot");
    let bare = k.home().join("bare.kubeconfig");
    let view = k.ok("config view --raw --minify -o json");
    let mut config: serde_json::Value = serde_json::from_str(&view).unwrap();
    config["users"][0]["user"] = serde_json::json!({"token": token});
    std::fs::write(&bare, config.to_string()).unwrap();
    let robot = k.with(&format!("--kubeconfig {}", bare.display()));
    let me = robot.json("auth whoami");
    let user = format!("system:serviceaccount:{}:robot", k.namespace());
    assert_eq!(me["status"]["userInfo"]["username"], user.as_str());
    let forbidden = robot.fails("get configmaps");
    assert!(
        forbidden.contains(&format!(
            r#"User "{user}" cannot list resource "configmaps""#
        )),
        "{forbidden}"
    );
    k.ok(&format!(
        "create rolebinding robot --clusterrole=view --serviceaccount={}:robot",
        k.namespace()
    ));
    allowed(&robot, "list configmaps");
    robot.ok("get configmaps");
    let secrets = robot.fails("get secrets");
    assert!(
        secrets.contains("Forbidden"),
        "view shows no secrets: {secrets}"
    );
    k.ok("delete serviceaccount robot");
    e2e::eventually("the token ends with its account", || {
        let outcome = robot.run("get configmaps", "");
        outcome.stderr.contains("Unauthorized").then_some(())
    });
    config["users"][0]["user"] = serde_json::json!({"token": "made.up.token"});
    std::fs::write(&bare, config.to_string()).unwrap();
    let refused = robot.fails("get configmaps");
    assert!(
        refused.contains("You must be logged in to the server"),
        "{refused}"
    );
}

/// Creating a role requires the permissions in it.
fn users_cannot_grant_what_they_lack(k: &Kubectl) {
    let user = format!("joe-{}", k.namespace());
    k.ok(&format!(
        "create rolebinding joe --clusterrole=admin --user={user}"
    ));
    let joe = k.with(&format!("--as {user}"));
    allowed(&joe, "create roles.rbac.authorization.k8s.io");
    joe.ok("create role fine --verb=get --resource=pods");
    let escalation = joe.fails("create role wide --verb=get --resource=nodes");
    assert!(
        escalation.contains("is attempting to grant RBAC permissions not currently held"),
        "{escalation}"
    );
    let binding = joe.fails(&format!(
        "create rolebinding all --clusterrole=cluster-admin --user={user}"
    ));
    assert!(
        binding.contains("is attempting to grant RBAC permissions not currently held"),
        "{binding}"
    );
    joe.ok("create rolebinding ok --role=fine --user=x");
}

/// Waits until a permission takes effect. Real servers apply a new binding with a short delay.
fn allowed(k: &Kubectl, question: &str) {
    e2e::eventually(question, || {
        (k.run(&format!("auth can-i {question}"), "").stdout == "yes\n").then_some(())
    });
}
