//! What pages share: the memory of the machine, and ports that they name.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many pages may run a `polity up` at once.
const MOST_LOCAL: usize = 2;

static N_LOCAL: Mutex<usize> = Mutex::new(0);
static LOCAL_ENDED: Condvar = Condvar::new();
static SERVER_PORTS: Mutex<()> = Mutex::new(());

/// Held while a page runs.
pub(crate) struct Held {
    is_local: bool,
    _ports: Option<MutexGuard<'static, ()>>,
}

/// Waits until a page with these commands may run.
pub(crate) fn wait_for(commands: &[&str]) -> Held {
    let runs = |what: &str| commands.iter().any(|command| command.contains(what));
    // In this order everywhere, so that no two pages wait for each other.
    let ports = runs("polity server").then(|| lock(&SERVER_PORTS));
    let is_local = runs("polity up") || runs("xtask up");
    if is_local {
        let mut n_local = lock(&N_LOCAL);
        while *n_local >= MOST_LOCAL {
            n_local = LOCAL_ENDED
                .wait(n_local)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *n_local += 1;
    }
    Held {
        is_local,
        _ports: ports,
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_local {
            *lock(&N_LOCAL) -= 1;
            LOCAL_ENDED.notify_one();
        }
    }
}

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
