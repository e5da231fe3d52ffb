//! One value from one task to another, for commands to the control task; requests never use it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Makes both ends.
pub(crate) fn promise<T>() -> (Promise<T>, Outcome<T>) {
    let cell = Arc::new(Mutex::new(Cell {
        value: None,
        waker: None,
        over: false,
    }));
    (Promise(Arc::clone(&cell)), Outcome(cell))
}

/// The end that gives the value; dropping it without one tells the other end so.
#[derive(Debug)]
pub(crate) struct Promise<T>(Arc<Mutex<Cell<T>>>);

/// The end that waits for the value; nothing comes when the other end is gone.
#[derive(Debug)]
pub(crate) struct Outcome<T>(Arc<Mutex<Cell<T>>>);

#[derive(Debug)]
struct Cell<T> {
    value: Option<T>,
    waker: Option<Waker>,
    over: bool,
}

impl<T> Promise<T> {
    /// Gives the value.
    pub(crate) fn keep(self, value: T) {
        lock(&self.0).value = Some(value);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let mut cell = lock(&self.0);
        cell.over = true;
        let waker = cell.waker.take();
        drop(cell);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Outcome<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut waker = Some(cx.waker().clone());
        let mut cell = lock(&self.0);
        if cell.over {
            let value = cell.value.take();
            drop(cell);
            return Poll::Ready(value);
        }
        std::mem::swap(&mut cell.waker, &mut waker);
        drop(cell);
        drop(waker);
        Poll::Pending
    }
}

fn lock<T>(cell: &Mutex<Cell<T>>) -> MutexGuard<'_, Cell<T>> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}
