//! An application that knows the driver under the name of one adapter only.
#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications, single_use_lifetimes)]

use std::borrow::Cow;

use messina_tokio::{FromRow, FromValue, RequestError, Session, ToRow, ToValue};

/// A key.
#[derive(Clone, Debug, PartialEq, FromRow, ToRow)]
pub struct Key {
    /// Who owns the row.
    pub tenant: i32,
    /// Which one it is.
    pub id: i64,
}

/// An id around a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromValue, ToValue)]
pub struct UserId(pub i64);

/// A user-defined type.
#[derive(Clone, Debug, FromValue, ToValue)]
#[cql(rename_all = "camelCase")]
pub struct Address<'a, T> {
    /// The street.
    pub street_name: Cow<'a, str>,
    /// The zip code.
    #[cql(default)]
    pub zip: T,
    /// The place.
    #[cql(flatten)]
    pub at: Place,
}

/// A part of a user-defined type.
#[derive(Clone, Copy, Debug, FromValue, ToValue)]
pub struct Place {
    /// North.
    pub latitude: f64,
    /// East.
    pub longitude: f64,
}

/// An enum as text.
#[derive(Clone, Copy, Debug, FromValue, ToValue)]
#[cql(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    UpAndRunning,
    /// As it should not be.
    Down,
}

/// An enum as a number.
#[derive(Clone, Copy, Debug, FromValue, ToValue)]
#[cql(smallint)]
pub enum Level {
    /// Low.
    Low = -1,
    /// High.
    High = 1,
}

/// A row with everything.
#[derive(Debug, FromRow, ToRow)]
pub struct User<'r, T, const N: usize> {
    #[cql(flatten)]
    key: Key,
    #[cql(rename = "type")]
    kind: &'r str,
    state: Option<State>,
    #[cql(default = zero)]
    level: Level,
    home: Address<'r, T>,
    vector: [f32; N],
    #[cql(skip)]
    cached: Option<T>,
}

fn zero() -> Level {
    Level::Low
}

/// A row by place.
#[derive(Debug, FromRow, ToRow)]
#[cql(order)]
pub struct Pair {
    first: i32,
    second: i32,
}

/// Uses what was derived.
pub async fn first(session: &Session, key: &Key) -> Result<Option<Pair>, RequestError> {
    let insert = session.prepare("INSERT INTO ks.t (tenant, id) VALUES (?, ?)").await?;
    session.execute(&insert, key).await?;
    let page = session.execute("SELECT first, second FROM ks.t", ()).await?;
    let pair = page.maybe_one::<Pair>()?;
    Ok(pair.map(|pair| Pair { first: pair.second, ..pair }))
}

/// Says what is in a user, which no lint may call unread.
pub fn shown<T: Copy, const N: usize>(user: &User<'_, T, N>) -> (Key, usize, Option<T>) {
    let User { key, kind, state, level, home, vector, cached } = user;
    let count = kind.len() + usize::from(state.is_some()) + *level as usize + home.street_name.len();
    (key.clone(), count + vector.len(), *cached)
}

/// Nothing that the standard library brings into scope is needed.
#[no_implicit_prelude]
pub mod bare {
    use ::messina_tokio::{FromRow, FromValue, ToRow, ToValue};

    /// These names mean something else here.
    #[derive(FromRow, ToRow)]
    pub struct Option {
        /// A field.
        #[cql(default)]
        pub value: i32,
        /// Another row.
        #[cql(flatten)]
        pub some: Some,
    }

    /// Not the variant.
    #[derive(FromRow, ToRow)]
    pub struct Some {
        /// A field.
        pub ok: i32,
    }

    /// Not the result.
    #[derive(FromValue, ToValue)]
    pub struct Result {
        /// A field.
        #[cql(default)]
        pub err: i32,
    }

    /// Not the trait.
    #[derive(FromValue, ToValue)]
    pub enum Default {
        /// Not the variant.
        Ok,
        /// Not the variant.
        None,
    }

    /// A number.
    #[derive(FromValue, ToValue)]
    #[cql(int)]
    pub enum Vec {
        /// Not the variant.
        Err,
    }
}
