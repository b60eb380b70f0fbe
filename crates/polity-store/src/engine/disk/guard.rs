//! Turns a panic of the storage engine into a value.
//!
//! redb asserts the consistency of the pages it reads, so a damaged file can make it panic. The
//! process-wide panic hook would print a backtrace for each of these panics although they are
//! handled; while a guarded call runs on a thread, the hook keeps the message for the caller
//! instead.

use std::{
    cell::{Cell, RefCell},
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    sync::Once,
    thread,
};

thread_local! {
    /// Whether a guarded call runs on this thread.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// The message of the panic that ended the guarded call.
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs an operation. Returns the message of its panic if it panics.
///
/// The caller must not use values again that the operation had borrowed mutably, other than to drop them (also within
/// a guarded call).
pub(super) fn catch<T>(operation: impl FnOnce() -> T) -> Result<T, String> {
    // Changing the hook is not allowed while a panic unwinds. The store was opened before that, so
    // the hook is in place by then.
    if !thread::panicking() {
        HOOK.call_once(install_hook);
    }
    let outer = GUARDED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(operation));
    GUARDED.set(outer);
    outcome.map_err(|_| MESSAGE.take().unwrap_or_else(|| "it panicked".to_owned()))
}

fn install_hook() {
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if GUARDED.get() {
            MESSAGE.set(Some(describe(info)));
        } else {
            others(info);
        }
    }));
}

/// The message and the source file, without the folders of the machine that built the program.
fn describe(info: &PanicHookInfo<'_>) -> String {
    let message = info.payload_as_str().unwrap_or("a panic without a message");
    match info.location() {
        Some(location) => {
            let file = location.file().rsplit(['/', '\\']).next();
            format!(
                "{message}, {}:{}",
                file.unwrap_or_default(),
                location.line()
            )
        }
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_and_place() {
        let caught = catch(|| -> u8 { panic!("page {} is missing", 7) });
        let message = caught.expect_err("it panics");
        assert!(
            message.starts_with("page 7 is missing, guard.rs:"),
            "{message}"
        );
    }

    #[test]
    fn a_guarded_call_within_another_leaves_the_outer_guard_in_place() {
        let outer = catch(|| -> u8 {
            let inner = catch(|| -> u8 { panic!("inner") });
            assert!(inner.is_err_and(|message| message.starts_with("inner")));
            assert!(GUARDED.get());
            panic!("outer");
        });
        assert!(outer.is_err_and(|message| message.starts_with("outer")));
        assert!(
            !GUARDED.get(),
            "later panics of this thread are printed again"
        );
    }
}
