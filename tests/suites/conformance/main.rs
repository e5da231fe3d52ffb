//! The same cases on every runtime: what an application relies on, over real sockets on loopback.
//!
//! A case is an async function over the `Runtime` trait; the macro makes one test of it for each adapter.

mod close;
mod identity;
mod keyspace;
mod operation;
mod paging;
mod pipeline;
mod requests;
mod shards;
mod start;
mod statements;
mod support;
mod tls;

/// Stamps each case once for every adapter.
macro_rules! on_each_runtime {
    ($(#[test] async fn $name:ident<$runtime:ident: Runtime>() $body:block)+) => {
        $(async fn $name<$runtime: crate::support::Harness>() $body)+

        mod on_tokio {
            $(#[test] fn $name() { crate::support::on_tokio(super::$name::<messina_tokio::Tokio>()); })+
        }

        mod on_smol {
            $(#[test] fn $name() { smol::block_on(super::$name::<messina_smol::Smol>()); })+
        }

        mod on_async_std {
            $(#[test] fn $name() { async_std::task::block_on(super::$name::<messina_async_std::AsyncStd>()); })+
        }
    };
}
pub(crate) use on_each_runtime;
