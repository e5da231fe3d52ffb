//! Derives for messina-core: FromRow, ToRow, FromValue, ToValue.
