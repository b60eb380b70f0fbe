//! Limits how many pages run at the same time, because they share memory and fixed ports.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many pages may run `polity up` concurrently.
const MOST_LOCAL: usize = 2;

static N_LOCAL: Mutex<usize> = Mutex::new(0);
static LOCAL_ENDED: Condvar = Condvar::new();
static SERVER_PORTS: Mutex<()> = Mutex::new(());

/// Permission to run a page. Released on drop.
pub(crate) struct PagePermit {
    is_local: bool,
    _ports: Option<MutexGuard<'static, ()>>,
}

/// Waits until a page with these commands may run.
pub(crate) fn wait_for(commands: &[&str]) -> PagePermit {
    let runs = |what: &str| commands.iter().any(|command| command.contains(what));
    // Always in this order, to avoid a deadlock between two pages.
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
    PagePermit {
        is_local,
        _ports: ports,
    }
}

impl Drop for PagePermit {
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
