//! What a process needs before it starts, and what is kept up to date while it runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, ServiceAccount, Volume};
use kube::Api;
use kube::api::PostParams;
use tracing::{debug, warn};

use super::super::{RETRY, WRITE_PATIENCE, absence};
use super::{Live, Worker};
use crate::access::Wanted;
use crate::container::{KUBECONFIG, Mounts, Ports, Surroundings, resolve, service_account};
use crate::permit::may_run;
use crate::pod::{Unready, container};
use crate::process::Program;
use crate::volumes::{Content, Files, content, inside, mount_error, write};

/// The volumes that were written, by place.
pub(super) type Written = BTreeMap<PathBuf, Files>;

impl Worker {
    /// Starts the process of the Pod, for the n-th time.
    pub(super) async fn start(&mut self, pod: &Pod, restarts: i32) -> Result<Live, Unready> {
        self.check_permit(pod).await?;
        let container = container(pod).ok_or_else(|| failed("the Pod has no container"))?;
        let image = container.image.as_deref().unwrap_or_default();
        let binary = self
            .shared
            .options
            .images
            .binary(image)
            .ok_or_else(|| Unready {
                reason: "ErrImageNeverPull",
                message: format!("image {image:?} is not known here"),
            })?;
        let binary = binary.to_owned();
        self.renew_tokens(pod).await?;
        self.write_volumes(pod).await?;
        let ports = Ports::assign(container, free_ports().map_err(|error| failed(&error))?);
        let mounts = self.mounts(pod, container)?;
        let program = self.program(pod, container, binary, &mounts, &ports)?;
        let log = self
            .shared
            .logs
            .begin(&self.namespace, &self.name, &self.uid, restarts);
        let log = log.map_err(|error| failed(&error))?;
        let process = self
            .shared
            .spawner
            .spawn(&program)
            .map_err(|error| failed(&chain(&error)))?;
        let live = Live {
            process: process.id(),
            signals: process.signals(),
            ended: process.ended,
            ports,
        };
        let output = process.output;
        // A thread: its end is the end of the output, and a slow disk holds up nobody else.
        std::thread::spawn(move || log.drain(output));
        Ok(live)
    }

    /// Before anything is made for the Pod: no token, no file, no log.
    async fn check_permit(&self, pod: &Pod) -> Result<(), Unready> {
        let permit = &self.shared.options.permit;
        let owners = self.shared.objects.owners(&permit.namespace);
        let Err(refusal) = may_run(pod, &owners, permit) else {
            return Ok(());
        };
        let message = refusal.to_string();
        let is_reported = self.refused.as_ref() == Some(&message);
        match is_reported || absence::is_final(&self.shared, &refusal).await {
            true => Err(Unready::forbidden(message)),
            false => Err(failed("its owner is not in the cache yet")),
        }
    }

    fn program(
        &self,
        pod: &Pod,
        container: &Container,
        binary: PathBuf,
        mounts: &Mounts,
        ports: &Ports,
    ) -> Result<Program, Unready> {
        let home = self.shared.places.pod(&self.uid);
        let kubeconfig = self.shared.places.access(&self.uid).join("kubeconfig");
        let mut given = self.shared.options.env.clone();
        given.insert("HOME".into(), home.to_string_lossy().into_owned());
        given.insert(KUBECONFIG.into(), kubeconfig.to_string_lossy().into_owned());
        let around = Surroundings {
            sources: &self.shared.objects.in_namespace(&self.namespace),
            mounts,
            ports,
            given: &given,
        };
        let launch = resolve(pod, container, around)?;
        Ok(Program {
            called: launch
                .called
                .map_or_else(|| binary.clone().into(), OsString::from),
            binary,
            args: launch.args.into_iter().map(OsString::from).collect(),
            env: launch.env,
            directory: home,
        })
    }

    /// Fresh tokens and the volumes as they should be now; what cannot be had leaves what is there.
    pub(super) async fn keep_up(&mut self, pod: &Pod) {
        if self.live.is_none() || pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        let kept = match self.renew_tokens(pod).await {
            Ok(()) => self.write_volumes(pod).await,
            Err(problem) => Err(problem),
        };
        if let Err(problem) = kept {
            debug!(
                namespace = self.namespace,
                name = self.name,
                ?problem,
                "volumes are not up to date"
            );
        }
    }

    async fn renew_tokens(&mut self, pod: &Pod) -> Result<(), Unready> {
        for wanted in self.purse.due(pod, self.shared.now()) {
            self.renew_token(pod, wanted).await?;
        }
        Ok(())
    }

    async fn renew_token(&mut self, pod: &Pod, wanted: Wanted) -> Result<(), Unready> {
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.shared.client.clone(), &self.namespace);
        let (params, request) = (PostParams::default(), wanted.request(pod));
        let answer = accounts.create_token_request(service_account(pod), &params, &request);
        let problem = match tokio::time::timeout(WRITE_PATIENCE, answer).await {
            Ok(Ok(answer)) => {
                self.purse.put(wanted, &answer, self.shared.now());
                return Ok(());
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        let retry_at = self.shared.now().checked_add(RETRY).ok();
        self.retry_at = self.retry_at.or(retry_at);
        Err(mount_error(format!("requesting a token: {problem}")))
    }

    async fn write_volumes(&mut self, pod: &Pod) -> Result<(), Unready> {
        let mut wanted = Written::new();
        let mut folders = vec![self.shared.places.pod(&self.uid)];
        for volume in volumes(pod) {
            match self.content(pod, volume)? {
                Content::Files(files) => {
                    let place = self.shared.places.volume(&self.uid, &volume.name);
                    wanted.insert(place, files);
                }
                Content::Empty | Content::Claim(_) => folders.push(self.place(volume)?),
            }
        }
        let access = self.shared.places.access(&self.uid);
        let kubeconfig = self
            .purse
            .kubeconfig(&self.shared.options.api, &self.namespace, &access);
        wanted.extend(kubeconfig.map(|files| (access, files)));
        if wanted == self.volumes {
            return Ok(());
        }
        let written = wanted.clone();
        let writing = tokio::task::spawn_blocking(move || {
            for folder in folders {
                std::fs::create_dir_all(&folder).map_err(|error| mount_error(error.to_string()))?;
            }
            for (place, files) in &written {
                write::write(place, files).map_err(|error| mount_error(chain(&error)))?;
            }
            Ok(())
        });
        writing
            .await
            .unwrap_or_else(|error| Err(mount_error(error.to_string())))?;
        self.volumes = wanted;
        Ok(())
    }

    fn content(&self, pod: &Pod, volume: &Volume) -> Result<Content, Unready> {
        let sources = self.shared.objects.in_namespace(&self.namespace);
        content(pod, volume, &sources, &self.purse)
    }

    /// Where a volume is.
    fn place(&self, volume: &Volume) -> Result<PathBuf, Unready> {
        let Some(source) = &volume.persistent_volume_claim else {
            return Ok(self.shared.places.volume(&self.uid, &volume.name));
        };
        let name = &source.claim_name;
        match self.shared.objects.claim(&self.namespace, name) {
            Some(claim) => Ok(self.shared.places.claim(&claim)),
            None => Err(mount_error(format!(
                "persistentvolumeclaim {name:?} not found"
            ))),
        }
    }

    fn mounts(&self, pod: &Pod, container: &Container) -> Result<Mounts, Unready> {
        let mut pairs = Vec::new();
        for mount in container.volume_mounts.iter().flatten() {
            let volume = volumes(pod).find(|volume| volume.name == mount.name);
            let volume = volume.ok_or_else(|| failed(&format!("no volume {:?}", mount.name)))?;
            if mount.sub_path_expr.is_some() {
                return Err(failed("subPathExpr is not known here"));
            }
            let mut place = self.place(volume)?;
            if let Some(path) = mount.sub_path.as_deref().filter(|path| !path.is_empty()) {
                place = sub_path(&place, &inside(path)?)?;
            }
            pairs.push((
                mount.mount_path.clone(),
                place.to_string_lossy().into_owned(),
            ));
        }
        Ok(Mounts::new(pairs))
    }
}

/// A path inside a volume. One that is not there yet is a directory; where it cannot be one, it is a file already. A
/// link that leads out of the volume is not followed.
fn sub_path(volume: &Path, path: &str) -> Result<PathBuf, Unready> {
    let place = volume.join(path);
    if !place.exists()
        && let Err(error) = std::fs::create_dir_all(&place)
    {
        warn!(place = %place.display(), error = &error as &dyn std::error::Error, "sub path not created");
    }
    match (place.canonicalize(), volume.canonicalize()) {
        // By its own name: files of objects change behind it.
        (Ok(resolved), Ok(volume)) if resolved.starts_with(&volume) => Ok(place),
        (Ok(_), Ok(_)) => Err(Unready::forbidden(format!(
            "sub path {path:?} leads out of its volume"
        ))),
        (Err(error), _) | (_, Err(error)) => {
            Err(mount_error(format!("sub path {path:?}: {error}")))
        }
    }
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
}

/// Ports that nobody has. They are held together, so that they differ, and let go just before the process takes
/// them; should somebody be quicker, the process fails and its next start gets others.
fn free_ports() -> io::Result<[u16; Ports::COUNT]> {
    let mut held = Vec::new();
    let mut ports = [0; Ports::COUNT];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn failed(why: &(impl ToString + ?Sized)) -> Unready {
    Unready {
        reason: "CreateContainerError",
        message: why.to_string(),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}
