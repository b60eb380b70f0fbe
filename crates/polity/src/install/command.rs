//! `polity install`: what an installation is made of, printed or applied.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use polity_cli::exit::Exit;
use polity_lifecycle::install::Installation;
use polity_reconcile::{WriteError, Writer};
use polity_runtime::args::{ClientArgs, HumanDuration};
use polity_runtime::retry::{self, Backoff};
use polity_runtime::{Clock, env};
use serde_json::Value;

use super::readiness::{self, NotReady};
use super::{Definition, MANAGER, default_image};

/// How often an object is tried whose kind the API server does not know yet.
const TRIES: usize = 20;

/// How to get an image.
const IMAGE_HINT: &str = "build it from a clone with `podman build -t REGISTRY/polity:TAG .`, push it with `podman push \
                          REGISTRY/polity:TAG`, and run `polity install --image REGISTRY/polity:TAG` again; \
                          docs/guides/install.md shows it for kind, k3d and minikube too";

/// Install Polity into a cluster, or print what that would apply
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity install --print                                   print the manifests\n  polity install --image registry.example.com/polity:v0.1.0\n  polity install --image polity:dev --namespace policies --timeout 5m\n\nNo registry has the default image: docs/guides/install.md shows how to build\none. Policy servers that are there already are left as they are.\n\nExit codes: 0 installed, 1 the controller did not become ready, 2 error."
)]
pub(crate) struct InstallArgs {
    /// Print the manifests and change nothing
    #[arg(long)]
    print: bool,
    /// The namespace of the controller and the policy servers
    #[arg(long, short, env = env::INSTALL_NAMESPACE, value_name = "NAMESPACE", default_value = "kubewarden")]
    namespace: String,
    /// The image of the controller and of the policy servers [default: polity, of this version]
    #[arg(long, env = env::INSTALL_IMAGE, value_name = "IMAGE")]
    image: Option<String>,
    /// How many replicas the first policy server has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..))]
    replicas: i32,
    /// Wait until the controller is ready
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    timeout: HumanDuration,
    /// Write all but the definitions to files in this folder
    #[arg(long, value_name = "FOLDER", hide = true, conflicts_with = "print")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

impl InstallArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            client,
            print,
            namespace,
            image,
            replicas,
            wait,
            timeout,
            folder,
        } = self;
        let is_default_image = image.is_none();
        let installation = Installation {
            namespace,
            image: image.unwrap_or_else(default_image),
            replicas,
        };
        if let Some(folder) = folder {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("creating {}", folder.display()))?;
            for (name, text) in files(&installation)? {
                let path = folder.join(name);
                std::fs::write(&path, text)
                    .with_context(|| format!("writing {}", path.display()))?;
            }
        } else if print {
            let text = printed(&installation)?;
            std::io::stdout().lock().write_all(text.as_bytes())?;
        } else {
            let client = polity_cli::connect(&client).await?;
            install(&client, &installation).await?;
            if wait {
                let ready = controller_is_ready(&client, &installation, timeout.0).await?;
                return Ok(if ready { Exit::Fine } else { Exit::Findings });
            }
            if is_default_image {
                let image = &installation.image;
                eprintln!("note: no registry has the image {image}; {IMAGE_HINT}");
            }
        }
        Ok(Exit::Fine)
    }
}

/// Waits for the controller, and prints why it is not ready.
async fn controller_is_ready(
    client: &Client,
    installation: &Installation,
    timeout: Duration,
) -> anyhow::Result<bool> {
    let Installation {
        namespace, image, ..
    } = installation;
    let clock = Clock::system();
    let tell = |progress: &str| eprintln!("waiting for the controller: {progress}");
    let ready = readiness::wait(client, &clock, (namespace, image), timeout, tell).await;
    let Err(error) = ready else {
        eprintln!("the controller is ready");
        return Ok(true);
    };
    let hint = match error.downcast_ref() {
        None => return Err(error),
        Some(NotReady::NoImage { .. }) => IMAGE_HINT.to_owned(),
        Some(NotReady::Timeout { .. }) => format!(
            "`kubectl -n {namespace} describe pods -l app.kubernetes.io/component=controller` shows why; \
             run `polity install` again to wait longer"
        ),
    };
    eprintln!("error: {error}\nhint: {hint}");
    Ok(false)
}

/// The files of `config/install`, by name.
fn files(installation: &Installation) -> anyhow::Result<Vec<(&'static str, String)>> {
    let files = installation.files().into_iter();
    files
        .map(|(name, manifests)| {
            let documents: Vec<_> = manifests.iter().map(yaml).collect::<Result<_, _>>()?;
            let text = documents.join("---\n");
            Ok((
                name,
                format!("# Written by `cargo xtask generate`.\n{text}"),
            ))
        })
        .collect()
}

/// Everything as one stream of documents: the definitions of our kinds, then the rest.
fn printed(installation: &Installation) -> anyhow::Result<String> {
    let definitions = polity_api::crd::all().into_iter().map(|crd| {
        let text = polity_api::crd::to_yaml(&crd);
        let body = text.split_once('\n').map(|(_, body)| body.to_owned());
        Ok(body.unwrap_or(text))
    });
    let manifests = installation.files().into_iter().flat_map(|(_, all)| all);
    let documents: Vec<String> = definitions
        .chain(manifests.map(|manifest| yaml(&manifest)))
        .collect::<anyhow::Result<_>>()?;
    Ok(format!("---\n{}", documents.join("---\n")))
}

fn yaml(manifest: &Value) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(manifest).context("writing a manifest")?;
    Ok(format!("{}\n", text.trim_end()))
}

/// Applies everything to a cluster.
pub(crate) async fn install(client: &Client, installation: &Installation) -> anyhow::Result<()> {
    super::apply(&[("this one", client.clone())], &Definition::all()?).await?;
    let mut manifests = vec![installation.namespace()];
    manifests.extend(installation.roles());
    manifests.extend(installation.controller());
    for manifest in &manifests {
        apply_manifest(client, manifest, Existing::Replaced).await?;
    }
    for manifest in &installation.defaults() {
        apply_manifest(client, manifest, Existing::Left).await?;
    }
    eprintln!("installed in namespace {}", installation.namespace);
    Ok(())
}

/// What happens to an object that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Its fields are set to those of the manifest.
    Replaced,
    /// It stays as it is: it belongs to the users of the cluster by now.
    Left,
}

/// Applies one manifest, and tries again for a while if its kind is not served yet.
pub(crate) async fn apply_manifest(
    client: &Client,
    manifest: &Value,
    existing: Existing,
) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(manifest.clone())?;
    let types = object.types.clone().context("a manifest has a kind")?;
    let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    };
    let name = object.name_any();
    let what = || format!("installing {} {name}", types.kind);
    if existing == Existing::Left && is_there(&api, &name).await.with_context(what)? {
        return Ok(());
    }
    let writer = Writer::of_kind(client, kind, MANAGER);
    let pauses = Backoff::new(
        Duration::from_millis(100),
        Duration::from_secs(1),
        retry::random,
    );
    for pause in pauses.take(TRIES) {
        match writer.apply(&object).await {
            Err(WriteError::NotFound { .. }) => Clock::system().sleep(pause).await,
            other => return other.map(drop).with_context(what),
        }
    }
    writer.apply(&object).await.map(drop).with_context(what)
}

/// By the code alone: of a kind that is not served yet a server says so in plain text, which has no reason.
async fn is_there(api: &Api<DynamicObject>, name: &str) -> kube::Result<bool> {
    match api.get(name).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Patch, PatchParams, PostParams};
    use polity_lifecycle::install::CONTROLLER;
    use polity_testing::TestServer;
    use serde_json::json;

    use super::*;

    fn installation() -> Installation {
        Installation {
            namespace: "policies".into(),
            image: "polity".into(),
            replicas: 2,
        }
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same() {
        let mut expected = installation().files().into_iter().flat_map(|(_, all)| all);
        let text = format!("\n{}", printed(&installation()).unwrap());
        let documents: Vec<&str> = text.split("\n---\n").skip(1).collect();
        let n_definitions = polity_api::crd::all().len();
        for document in &documents[n_definitions..] {
            let read: Value = serde_saphyr::from_str(document).unwrap();
            assert_eq!(Some(read), expected.next());
        }
        assert_eq!(expected.next(), None);
    }

    #[test]
    fn the_files_in_the_tree_are_those_of_this_version() {
        let installation = Installation {
            namespace: "kubewarden".into(),
            image: default_image(),
            replicas: 1,
        };
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/install");
        for (name, text) in files(&installation).unwrap() {
            let stored = std::fs::read_to_string(format!("{folder}/{name}")).unwrap_or_default();
            assert_eq!(stored, text, "{name} is stale; run: cargo xtask generate");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn installing_twice_leaves_policy_servers_alone() {
        let server = TestServer::start().await;
        let client = server.client().await;
        install(&client, &installation()).await.unwrap();
        let servers: Api<polity_api::policies::v1::PolicyServer> = Api::all(client.clone());
        let before = servers.get("default").await.unwrap();
        assert_eq!(before.spec.replicas, 2);
        let other = Installation {
            replicas: 5,
            ..installation()
        };
        install(&client, &other).await.unwrap();
        assert_eq!(servers.get("default").await.unwrap(), before);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn waiting_ends_with_the_state_of_the_controller() {
        let server = TestServer::start().await;
        let client = server.client().await;
        install(&client, &installation()).await.unwrap();
        let clock = Clock::system();
        let wait = async |timeout: u64| {
            let timeout = Duration::from_secs(timeout);
            let of = ("policies", "polity");
            let ended = readiness::wait(&client, &clock, of, timeout, |_| {}).await;
            ended.map_err(|error| error.downcast::<NotReady>().unwrap())
        };
        let late = wait(0).await.unwrap_err();
        assert!(matches!(late, NotReady::Timeout { .. }), "{late}");

        let pods: Api<Pod> = Api::namespaced(client.clone(), "policies");
        let pod = json!({
            "metadata": {"name": "c", "labels": {"app.kubernetes.io/component": "controller"}},
            "spec": {
                "serviceAccountName": "kubewarden-controller",
                "containers": [{"name": "controller", "image": "polity"}],
            },
        });
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let waiting = json!({"status": {"containerStatuses": [{
            "name": "controller", "image": "polity", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}},
        }]}});
        let params = PatchParams::default();
        let patch = Patch::Merge(waiting);
        pods.patch_status("c", &params, &patch).await.unwrap();
        let error = wait(60).await.unwrap_err();
        let shown = "pod c cannot pull the image polity (ErrImagePull: not found)";
        assert_eq!(error.to_string(), shown);

        let deployments: Api<Deployment> = Api::namespaced(client.clone(), "policies");
        let available = json!({"status": {
            "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
            "availableReplicas": 2,
        }});
        let patch = Patch::Merge(available);
        let patched = deployments.patch_status(CONTROLLER, &params, &patch).await;
        patched.unwrap();
        wait(60).await.unwrap();
    }
}
