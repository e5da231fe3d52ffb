//! How column names are made from Rust names.

use heck::{
    ToKebabCase, ToLowerCamelCase, ToShoutyKebabCase, ToShoutySnakeCase, ToSnakeCase,
    ToUpperCamelCase,
};

/// A way to write names of several words.
#[derive(Clone, Copy)]
pub(crate) enum Case {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ShoutySnake,
    Kebab,
    ShoutyKebab,
}

const ALL: [(&str, Case); 8] = [
    ("lowercase", Case::Lower),
    ("UPPERCASE", Case::Upper),
    ("PascalCase", Case::Pascal),
    ("camelCase", Case::Camel),
    ("snake_case", Case::Snake),
    ("SCREAMING_SNAKE_CASE", Case::ShoutySnake),
    ("kebab-case", Case::Kebab),
    ("SCREAMING-KEBAB-CASE", Case::ShoutyKebab),
];

impl Case {
    pub(crate) fn named(name: &str) -> Option<Self> {
        ALL.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, case)| *case)
    }

    /// Returns the names of all, for messages.
    pub(crate) fn names() -> String {
        ALL.map(|(name, _)| format!("\"{name}\"")).join(", ")
    }

    pub(crate) fn apply(self, name: &str) -> String {
        match self {
            Self::Lower => name.to_lowercase(),
            Self::Upper => name.to_uppercase(),
            Self::Pascal => name.to_upper_camel_case(),
            Self::Camel => name.to_lower_camel_case(),
            Self::Snake => name.to_snake_case(),
            Self::ShoutySnake => name.to_shouty_snake_case(),
            Self::Kebab => name.to_kebab_case(),
            Self::ShoutyKebab => name.to_shouty_kebab_case(),
        }
    }
}
