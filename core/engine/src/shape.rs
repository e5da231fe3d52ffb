//! The cell that holds the current result columns of a prepared statement, where many tasks read and replace it.
//! What is put into it is decided by the core.

use std::sync::Arc;

use arc_swap::ArcSwap;
use messina_core::exec::prepared::{ResultShape, ShapeCell};

/// A [`ShapeCell`] without a lock.
#[derive(Debug)]
struct SwapCell(ArcSwap<ResultShape>);

/// Makes a cell with its first content.
pub(crate) fn shape_cell(shape: Arc<ResultShape>) -> Arc<dyn ShapeCell> {
    Arc::new(SwapCell(ArcSwap::new(shape)))
}

impl ShapeCell for SwapCell {
    fn load(&self) -> Arc<ResultShape> {
        self.0.load_full()
    }

    fn replace(&self, seen: &Arc<ResultShape>, new: Arc<ResultShape>) {
        self.0.compare_and_swap(seen, new);
    }
}
