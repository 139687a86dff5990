//! Threads that work beside a test, and end with it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Runs each task in a thread of its own while `body` runs. The tasks see by their flag that it is
/// over, however it has ended: a task that goes on until then ends also where the test fails.
pub fn beside<T: Send>(
    tasks: impl IntoIterator<Item = impl FnOnce(&AtomicBool) -> T + Send>,
    body: impl FnOnce(),
) -> Vec<T> {
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> =
            tasks.into_iter().map(|task| scope.spawn(move || task(over))).collect();
        let outcome = catch_unwind(AssertUnwindSafe(body));
        over.store(true, Ordering::Relaxed);
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
        results.into_iter().map(|result| result.expect("the task went well")).collect()
    })
}
