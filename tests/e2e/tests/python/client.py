"""Scenarios with the Python package `kubernetes`: client.py KUBECONFIG SCENARIO.

Each function gets an API client and the name of a namespace of its own. The same steps run on the embedded server and
on the real one, so they say what any server must do.
"""

import sys
import threading
import time

import yaml
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException


def eventually(what, look):
    """Polls until the function returns a value."""
    for _ in range(600):
        seen = look()
        if seen:
            return seen
        time.sleep(0.1)
    raise AssertionError(f"never happened: {what}")


def refused(status, act, *args, **kwargs):
    """Calls a function that must be refused, and returns the body of the refusal."""
    try:
        act(*args, **kwargs)
    except ApiException as error:
        assert error.status == status, (error.status, error.body)
        return error.body
    raise AssertionError(f"{act.__name__} was not refused")


def config_map(name, data=None, **metadata):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, **metadata), data=data)


def deployment(name, replicas=None):
    labels = {"app": name}
    container = client.V1Container(name="main", image="nginx:1", ports=[client.V1ContainerPort(container_port=80)])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    selector = client.V1LabelSelector(match_labels=labels)
    spec = client.V1DeploymentSpec(replicas=replicas, selector=selector, template=template)
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=name), spec=spec)


def core_objects(api, namespace):
    core = client.CoreV1Api(api)
    created = core.create_namespaced_config_map(namespace, config_map("a", {"x": "1"}))
    assert created.metadata.uid and created.metadata.resource_version
    assert core.read_namespaced_config_map("a", namespace).data == {"x": "1"}
    assert "already exists" in refused(409, core.create_namespaced_config_map, namespace, config_map("a"))

    created.data = {"x": "2"}
    replaced = core.replace_namespaced_config_map("a", namespace, created)
    assert int(replaced.metadata.resource_version) > int(created.metadata.resource_version)
    assert "the object has been modified" in refused(409, core.replace_namespaced_config_map, "a", namespace, created)

    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"k": "v"})
    assert core.create_namespaced_secret(namespace, secret).data == {"k": "dg=="}
    dry = core.create_namespaced_config_map(namespace, config_map("dry"), dry_run="All")
    assert dry.metadata.uid and not dry.metadata.resource_version
    refused(404, core.read_namespaced_config_map, "dry", namespace)

    names = [item.metadata.name for item in core.list_namespaced_secret(namespace).items]
    assert names == ["s"], names
    everywhere = core.list_config_map_for_all_namespaces(field_selector="metadata.name=a")
    assert namespace in [item.metadata.namespace for item in everywhere.items]
    # A Status, as an object or a dict, depending on the release of the package.
    assert "Success" in str(core.delete_namespaced_config_map("a", namespace))
    refused(404, core.read_namespaced_config_map, "a", namespace)
    core.delete_collection_namespaced_secret(namespace)
    assert core.list_namespaced_secret(namespace).items == []
    assert "metadata.name" in refused(422, core.create_namespaced_config_map, namespace, config_map("UPPER"))


def workloads(api, namespace):
    apps = client.AppsV1Api(api)
    created = apps.create_namespaced_deployment(namespace, deployment("web"))
    assert created.spec.replicas == 1 and created.metadata.generation == 1
    assert created.spec.template.spec.containers[0].image_pull_policy == "IfNotPresent"

    scale = apps.read_namespaced_deployment_scale("web", namespace)
    scale.spec.replicas = 4
    apps.replace_namespaced_deployment_scale("web", namespace, scale)
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 5}})
    read = apps.read_namespaced_deployment("web", namespace)
    assert read.spec.replicas == 5 and read.metadata.generation == 3

    status = {"status": {"replicas": 5, "readyReplicas": 5, "observedGeneration": 3}}
    patched = apps.patch_namespaced_deployment_status("web", namespace, status)
    assert patched.status.ready_replicas == 5 and patched.metadata.generation == 3
    batch = client.BatchV1Api(api)
    pod = client.V1PodSpec(restart_policy="Never", containers=[client.V1Container(name="c", image="i:1")])
    job = client.V1Job(
        metadata=client.V1ObjectMeta(name="once"), spec=client.V1JobSpec(template=client.V1PodTemplateSpec(spec=pod))
    )
    assert batch.create_namespaced_job(namespace, job).spec.backoff_limit == 6
    apps.delete_namespaced_deployment("web", namespace)
    refused(404, apps.read_namespaced_deployment, "web", namespace)


def patches(api, namespace):
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    core.create_namespaced_config_map(namespace, config_map("a", {"x": "1", "y": "1"}))
    # A dict is a strategic merge patch, a list a JSON patch.
    core.patch_namespaced_config_map("a", namespace, {"data": {"x": None, "z": "1"}})
    core.patch_namespaced_config_map("a", namespace, [{"op": "replace", "path": "/data/y", "value": "2"}])
    assert core.read_namespaced_config_map("a", namespace).data == {"y": "2", "z": "1"}
    core.patch_namespaced_config_map("a", namespace, {"data": {"y": "3"}}, _content_type="application/merge-patch+json")
    assert core.read_namespaced_config_map("a", namespace).data == {"y": "3", "z": "1"}
    refused(422, core.patch_namespaced_config_map, "a", namespace, [{"op": "remove", "path": "/data/none"}])

    apps.create_namespaced_deployment(namespace, deployment("web"))
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "envoy:1"}]}}}}
    patched = apps.patch_namespaced_deployment("web", namespace, side)
    assert sorted(c.name for c in patched.spec.template.spec.containers) == ["main", "side"]


def applies_server_side(api, namespace):
    core = client.CoreV1Api(api)

    def apply(manager, data, **options):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
        return core.patch_namespaced_config_map(
            "a", namespace, body, field_manager=manager, _content_type="application/apply-patch+yaml", **options
        )

    created = apply("one", {"x": "1"})
    assert [(entry.manager, entry.operation) for entry in created.metadata.managed_fields] == [("one", "Apply")]
    assert apply("one", {"x": "1"}).metadata.resource_version == created.metadata.resource_version
    assert 'conflict with \\"one\\"' in refused(409, apply, "two", {"x": "2"})
    assert apply("two", {"x": "2"}, force=True).data == {"x": "2"}
    assert apply("one", {"y": "1"}).data == {"x": "2", "y": "1"}
    assert apply("two", {"z": "1"}).data == {"y": "1", "z": "1"}


def pages(api, namespace):
    core = client.CoreV1Api(api)
    wanted = [f"m{n:02}" for n in range(17)]
    for name in wanted:
        core.create_namespaced_config_map(namespace, config_map(name, labels={"mine": "yes"}))
    seen, token, versions = [], None, set()
    while True:
        page = core.list_namespaced_config_map(namespace, limit=5, label_selector="mine", _continue=token)
        seen += [item.metadata.name for item in page.items]
        versions.add(page.metadata.resource_version)
        token = page.metadata._continue
        # Written between two pages, so it is not part of this list.
        if len(seen) == 5:
            core.create_namespaced_config_map(namespace, config_map("m99", labels={"mine": "yes"}))
        if not token:
            break
    assert seen == wanted, seen
    assert len(versions) == 1, versions
    refused(400, core.list_namespaced_config_map, namespace, limit=5, _continue="made-up")


def watches_and_resumes(api, namespace):
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, config_map("a", {"n": "0"}, labels={"mine": "yes"}))
    start = core.list_namespaced_config_map(namespace, label_selector="mine").metadata.resource_version

    def write():
        for n in range(1, 6):
            core.patch_namespaced_config_map("a", namespace, {"data": {"n": str(n)}})
        core.delete_namespaced_config_map("a", namespace)

    def follow(version, count):
        stream = watch.Watch()
        events = []
        for event in stream.stream(
            core.list_namespaced_config_map,
            namespace,
            label_selector="mine",
            resource_version=version,
            timeout_seconds=60,
        ):
            events.append(event)
            if len(events) == count:
                stream.stop()
        return [(event["type"], event["object"].data["n"]) for event in events], events[-1]["object"]

    writer = threading.Thread(target=write)
    writer.start()
    first, last = follow(start, 3)
    writer.join()
    assert first == [("MODIFIED", "1"), ("MODIFIED", "2"), ("MODIFIED", "3")], first
    rest, _ = follow(last.metadata.resource_version, 3)
    assert rest == [("MODIFIED", "4"), ("MODIFIED", "5"), ("DELETED", "5")], rest
    # Without a version the stream starts with the existing objects.
    core.create_namespaced_config_map(namespace, config_map("b", {"n": "7"}, labels={"mine": "yes"}))
    assert follow(None, 1)[0] == [("ADDED", "7")]


GROUP = "{}.example.com"


def define(api, namespace):
    """Creates a CRD in a group for this scenario. Returns the name of the group."""
    group = GROUP.format(namespace)
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {"size": {"type": "integer"}, "colour": {"type": "string", "default": "red"}},
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "widgets", "kind": "Widget"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    definitions = client.ApiextensionsV1Api(api)
    definitions.create_custom_resource_definition(body)

    def established():
        conditions = definitions.read_custom_resource_definition(f"widgets.{group}").status.conditions or []
        return any(condition.type == "Established" and condition.status == "True" for condition in conditions)

    eventually("the kind is established", established)
    return group


def widget(group, name, size):
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}}


def custom_objects(api, namespace):
    group = define(api, namespace)
    custom = client.CustomObjectsApi(api)
    place = (group, "v1", namespace, "widgets")
    # A real server may need a moment to serve an established kind.
    created = eventually("the kind is served", lambda: try_create(custom, place, widget(group, "a", 1)))
    assert created["spec"] == {"size": 1, "colour": "red"}
    refused(422, custom.create_namespaced_custom_object, *place, widget(group, "b", "large"))
    custom.patch_namespaced_custom_object(*place, "a", {"spec": {"size": 2}})
    read = custom.get_namespaced_custom_object(*place, "a")
    assert read["spec"]["size"] == 2 and read["metadata"]["generation"] == 2
    custom.patch_namespaced_custom_object_status(*place, "a", {"status": {"phase": "Ready"}, "spec": {"size": 9}})
    read = custom.get_namespaced_custom_object(*place, "a")
    assert read["status"] == {"phase": "Ready"} and read["spec"]["size"] == 2
    read["spec"]["colour"] = "green"
    assert custom.replace_namespaced_custom_object(*place, "a", read)["spec"]["colour"] == "green"
    listed = custom.list_namespaced_custom_object(*place)
    assert [item["kind"] for item in listed["items"]] == ["Widget"]
    custom.delete_namespaced_custom_object(*place, "a")
    refused(404, custom.get_namespaced_custom_object, *place, "a")
    client.ApiextensionsV1Api(api).delete_custom_resource_definition(f"widgets.{group}")
    eventually("the kind is gone", lambda: not is_served(custom, place))


def try_create(custom, place, body):
    try:
        return custom.create_namespaced_custom_object(*place, body)
    except ApiException as error:
        assert error.status == 404, error
        return None


def is_served(custom, place):
    try:
        custom.list_namespaced_custom_object(*place)
        return True
    except ApiException as error:
        assert error.status == 404, error
        return False


def dynamic_client(api, namespace):
    group = define(api, namespace)
    # Discovers all served kinds, including the new one.
    found = dynamic.DynamicClient(api)
    maps = found.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(namespace=namespace, body={"metadata": {"name": "a"}, "data": {"x": "1"}})
    maps.patch(
        namespace=namespace, name="a", body={"data": {"x": "2"}}, content_type="application/merge-patch+json"
    )
    assert maps.get(namespace=namespace, name="a").data.x == "2"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"y": "1"}}
    applied = maps.server_side_apply(namespace=namespace, name="b", body=body, field_manager="dynamic")
    assert applied.metadata.managedFields[0].manager == "dynamic"
    assert maps.delete(namespace=namespace, name="a").status == "Success"

    widgets = eventually("the kind is discovered", lambda: try_discover(api, group))
    eventually("the kind is served", lambda: try_dynamic(widgets, namespace, widget(group, "w", 3)))
    assert [item.spec.size for item in widgets.get(namespace=namespace).items] == [3]
    events = widgets.watch(namespace=namespace, timeout=5)
    first = next(iter(events))
    assert (first["type"], first["object"].metadata.name) == ("ADDED", "w")
    widgets.delete(namespace=namespace, name="w")


def try_discover(api, group):
    try:
        return dynamic.DynamicClient(api).resources.get(api_version=f"{group}/v1", kind="Widget")
    except dynamic.exceptions.ResourceNotFoundError:
        return None


def try_dynamic(widgets, namespace, body):
    try:
        return widgets.create(namespace=namespace, body=body)
    except dynamic.exceptions.NotFoundError:
        return None


def deletes_with_propagation(api, namespace):
    core = client.CoreV1Api(api)

    def family(owner, child, **metadata):
        uid = core.create_namespaced_config_map(namespace, config_map(owner)).metadata.uid
        reference = client.V1OwnerReference(
            api_version="v1", kind="ConfigMap", name=owner, uid=uid, block_owner_deletion=True
        )
        core.create_namespaced_config_map(namespace, config_map(child, owner_references=[reference], **metadata))

    def gone(name):
        try:
            core.read_namespaced_config_map(name, namespace)
            return False
        except ApiException as error:
            assert error.status == 404, error
            return True

    family("back", "back-child")
    core.delete_namespaced_config_map("back", namespace, propagation_policy="Background")
    eventually("the child follows", lambda: gone("back-child"))

    family("fore", "fore-child", finalizers=["example.com/hold"])
    core.delete_namespaced_config_map("fore", namespace, body=client.V1DeleteOptions(propagation_policy="Foreground"))
    eventually(
        "the child goes first",
        lambda: core.read_namespaced_config_map("fore-child", namespace).metadata.deletion_timestamp,
    )
    assert not gone("fore")
    core.patch_namespaced_config_map("fore-child", namespace, {"metadata": {"finalizers": None}})
    eventually("the owner goes last", lambda: gone("fore-child") and gone("fore"))

    family("orphan", "orphan-child")
    core.delete_namespaced_config_map("orphan", namespace, propagation_policy="Orphan")
    eventually("the owner goes", lambda: gone("orphan"))
    assert not core.read_namespaced_config_map("orphan-child", namespace).metadata.owner_references

    current = core.create_namespaced_config_map(namespace, config_map("exact"))
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    refused(409, core.delete_namespaced_config_map, "exact", namespace, body=wrong)
    right = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=current.metadata.uid))
    core.delete_namespaced_config_map("exact", namespace, body=right)
    assert gone("exact")


def access_reviews(api, namespace):
    core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "robot"}})
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = core.create_namespaced_service_account_token("robot", namespace, request).status.token
    review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token))
    status = client.AuthenticationV1Api(api).create_token_review(review).status
    user = f"system:serviceaccount:{namespace}:robot"
    assert status.authenticated and status.user.username == user

    # A configuration without the administrator's credentials.
    own = client.Configuration()
    own.host, own.ssl_ca_cert = api.configuration.host, api.configuration.ssl_ca_cert
    robot = client.CoreV1Api(client.ApiClient(own, "authorization", f"Bearer {token}"))
    assert user in refused(403, robot.list_namespaced_config_map, namespace)

    rule = client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["list"])
    rbac.create_namespaced_role(namespace, client.V1Role(metadata={"name": "lister"}, rules=[rule]))
    subject = client.RbacV1Subject(kind="ServiceAccount", name="robot", namespace=namespace)
    role = client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="lister")
    binding = client.V1RoleBinding(metadata={"name": "lister"}, subjects=[subject], role_ref=role)
    rbac.create_namespaced_role_binding(namespace, binding)

    def asked(verb):
        attributes = client.V1ResourceAttributes(namespace=namespace, verb=verb, resource="configmaps")
        spec = client.V1SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
        body = client.V1SubjectAccessReview(spec=spec)
        return client.AuthorizationV1Api(api).create_subject_access_review(body).status.allowed

    eventually("the binding counts", lambda: asked("list"))
    assert not asked("delete")
    robot.list_namespaced_config_map(namespace)


def creates_from_yaml(api, namespace):
    documents = list(
        yaml.safe_load_all(
            """
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {x: "1"}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}}
"""
        )
    )
    for document in documents:
        utils.create_from_dict(api, document, namespace=namespace)
    core = client.CoreV1Api(api)
    assert core.read_namespaced_service("web", namespace).spec.ports[0].target_port == 80
    assert client.NetworkingV1Api(api).read_namespaced_network_policy("deny", namespace).spec.policy_types == ["Ingress"]
    assert client.VersionApi(api).get_code().minor.startswith("37")


def leader_election(api, namespace):
    leases = client.CoordinationV1Api(api)
    spec = client.V1LeaseSpec(holder_identity="one", lease_duration_seconds=15, renew_time="2026-01-01T00:00:00.123456Z")
    lease = leases.create_namespaced_lease(namespace, client.V1Lease(metadata={"name": "l"}, spec=spec))
    assert lease.spec.renew_time.microsecond == 123456
    stale = leases.read_namespaced_lease("l", namespace)
    lease.spec.holder_identity = "two"
    leases.replace_namespaced_lease("l", namespace, lease)
    stale.spec.holder_identity = "three"
    refused(409, leases.replace_namespaced_lease, "l", namespace, stale)
    assert leases.read_namespaced_lease("l", namespace).spec.holder_identity == "two"


def main():
    kubeconfig, scenario = sys.argv[1:]
    config.load_kube_config(kubeconfig)
    api = client.ApiClient()
    namespace = scenario.replace("_", "-")
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": namespace}})
    eventually("the namespace is complete", lambda: core.list_namespaced_service_account(namespace).items)
    globals()[scenario](api, namespace)


main()
