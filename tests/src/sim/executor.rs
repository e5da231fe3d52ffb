//! Runs tasks one at a time, in an order that the seed decides.
//! It knows neither time nor network; `run` turns the two around it.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use messina_core::seed::Random;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks of a run.
pub(super) struct Executor {
    state: Mutex<State>,
    ready: Arc<Mutex<Vec<Arc<Bell>>>>,
}

struct State {
    random: Random,
    /// Absent while it is polled.
    tasks: BTreeMap<u64, Option<Task>>,
    next: u64,
}

/// The waker of one task.
struct Bell {
    task: u64,
    rung: AtomicBool,
    ready: Arc<Mutex<Vec<Arc<Self>>>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            let ready = Arc::clone(&self.ready);
            lock(&ready).push(self);
        }
    }
}

/// What came of one turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// No task is ready.
    Idle,
    /// This task was polled.
    Polled(u64),
    /// This task has ended.
    Ended(u64),
    /// This task has panicked.
    Panicked(u64, String),
}

impl Executor {
    pub(super) fn new(random: Random) -> Self {
        Self {
            state: Mutex::new(State {
                random,
                tasks: BTreeMap::new(),
                next: 0,
            }),
            ready: Arc::default(),
        }
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> u64 {
        let mut state = lock(&self.state);
        let id = state.next;
        state.next += 1;
        state.tasks.insert(id, Some(Box::pin(task)));
        drop(state);
        let bell = Arc::new(Bell {
            task: id,
            rung: AtomicBool::new(false),
            ready: Arc::clone(&self.ready),
        });
        bell.wake();
        id
    }

    /// Polls one of the ready tasks.
    pub(super) fn turn(&self) -> Turn {
        let (bell, task) = {
            let mut state = lock(&self.state);
            let mut ready = lock(&self.ready);
            if ready.is_empty() {
                return Turn::Idle;
            }
            let at = state.random.index(ready.len());
            let bell = ready.remove(at);
            drop(ready);
            bell.rung.store(false, Ordering::SeqCst);
            let task = state.tasks.get_mut(&bell.task).and_then(Option::take);
            (bell, task)
        };
        let id = bell.task;
        let Some(mut task) = task else {
            return Turn::Polled(id);
        };
        let waker = Waker::from(bell);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            task.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        match polled {
            Ok(Poll::Pending) => {
                if let Some(slot) = lock(&self.state).tasks.get_mut(&id) {
                    *slot = Some(task);
                }
                Turn::Polled(id)
            }
            Ok(Poll::Ready(())) => {
                drop(task);
                lock(&self.state).tasks.remove(&id);
                Turn::Ended(id)
            }
            Err(panic) => {
                lock(&self.state).tasks.remove(&id);
                // What is half done is not touched again.
                std::mem::forget(task);
                Turn::Panicked(id, words(&*panic))
            }
        }
    }

    /// How many tasks have not ended.
    pub(super) fn len(&self) -> usize {
        lock(&self.state).tasks.len()
    }

    /// Drops all tasks, the youngest first, as an executor does that is shut down.
    pub(super) fn clear(&self) {
        loop {
            let last = lock(&self.state).tasks.pop_last();
            match last {
                None => return,
                Some((_, task)) => drop(task),
            }
        }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
