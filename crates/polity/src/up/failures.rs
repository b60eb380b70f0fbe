//! Starts that fail for a reason that a user can remove: what to do about them.

use std::io;

use polity_apiserver::fleet::FleetError;
use polity_cli::exit::Hinted;
use polity_cli::local::{Local, store_hint};

/// The error of a start, with a hint where there is one.
pub(super) fn hinted(error: anyhow::Error, local: &Local) -> anyhow::Error {
    let hint = match error.downcast_ref::<FleetError>() {
        Some(FleetError::Bind(bind)) => listen_hint(&bind.error),
        Some(FleetError::Store { cluster, source }) => store_hint(cluster, source, local),
        _ => None,
    };
    match hint {
        Some(hint) => with(&error, hint),
        None => error,
    }
}

/// A data directory that cannot be used.
pub(super) fn data_dir(error: anyhow::Error, local: &Local) -> anyhow::Error {
    let io = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<io::Error>());
    let hint = match io.map(io::Error::kind) {
        Some(
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotFound,
        ) => format!(
            "{} must be a place that this user can write to; --data-dir names another one",
            local.dir().display()
        ),
        Some(io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists) => format!(
            "{} must be a directory; --data-dir names another one",
            local.dir().display()
        ),
        _ => return error,
    };
    with(&error, hint)
}

fn with(error: &anyhow::Error, hint: String) -> anyhow::Error {
    // In one line, as every error is printed.
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !causes.last().is_some_and(|last| last.ends_with(&cause)) {
            causes.push(cause);
        }
    }
    Hinted::new(causes.join(": "), hint).into()
}

fn listen_hint(error: &io::Error) -> Option<String> {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there; name a free port with --listen, or leave --listen out and one is found"
        }
        io::ErrorKind::AddrNotAvailable => {
            "no network interface of this machine has that address; use 127.0.0.1 for this machine only, or 0.0.0.0 for all \
             interfaces"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need more rights; name a higher one with --listen"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use polity_store::OpenError;

    use super::*;

    fn damaged() -> FleetError {
        FleetError::Store {
            cluster: "hub".into(),
            source: OpenError::Foreign {
                file: "/d/clusters/hub/store/store.redb".into(),
            },
        }
    }

    #[test]
    fn a_damaged_store_names_the_cluster_the_file_and_the_way_back() {
        let error = hinted(damaged().into(), &Local::new("/d"));
        let said = error.to_string();
        assert!(
            said.contains("\"hub\"") && said.contains("store.redb"),
            "{said}"
        );
        let hint = &error.downcast_ref::<Hinted>().unwrap().hint;
        assert!(hint.contains("polity restore FILE --force"), "{hint}");
        assert!(
            hint.contains("move /d/clusters/hub/store/store.redb away"),
            "{hint}"
        );
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let error = hinted(anyhow::anyhow!("x"), &Local::new("/d"));
        assert!(error.downcast_ref::<Hinted>().is_none());
        assert_eq!(error.to_string(), "x");
    }

    #[test]
    fn an_address_of_another_machine_has_a_hint() {
        let hint = listen_hint(&io::ErrorKind::AddrNotAvailable.into()).unwrap();
        assert!(hint.contains("127.0.0.1 for this machine only"), "{hint}");
        assert!(hint.contains("0.0.0.0 for all interfaces"), "{hint}");
    }

    #[test]
    fn a_busy_port_has_a_hint() {
        let hint = listen_hint(&io::ErrorKind::AddrInUse.into()).unwrap();
        assert!(hint.contains("--listen"), "{hint}");
        assert_eq!(listen_hint(&io::ErrorKind::Other.into()), None);
    }
}
