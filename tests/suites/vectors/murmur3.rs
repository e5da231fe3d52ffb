//! Tokens of partition keys.

use messina_core::routing::{Partitioner, Token, TokenHasher};

use crate::files::{self, VectorFile};

#[test]
fn single_keys_hash_as_the_servers_hash_them() {
    let Some(file) = VectorFile::open("murmur3.json") else {
        return;
    };
    file.run("single", files::none, |case| {
        let key = files::bytes(case, "key_hex");
        let token = Partitioner::Murmur3.token(&key);
        compare(token, &[files::text(case, "token")])
    });
}

#[test]
fn composite_keys_hash_from_their_parts_and_as_a_whole() {
    let Some(file) = VectorFile::open("murmur3.json") else {
        return;
    };
    file.run("composite", files::none, |case| {
        let parts = case["components_hex"].as_array().expect("components");
        let mut hasher = TokenHasher::new(Partitioner::Murmur3, parts.len());
        for part in parts {
            let part = files::hex(part.as_str().expect("hex digits"));
            hasher.part(&part).map_err(|error| error.to_string())?;
        }
        let expected = [files::text(case, "token")];
        compare(hasher.finish(), &expected)?;
        let whole = files::bytes(case, "routing_key_hex");
        compare(Partitioner::Murmur3.token(&whole), &expected)
    });
}

#[test]
fn stream_ids_carry_their_token() {
    let Some(file) = VectorFile::open("murmur3.json") else {
        return;
    };
    file.run("cdc", files::none, |case| {
        let token = Partitioner::Cdc.token(&files::bytes(case, "key_hex"));
        // Keys that are no stream ids have two answers, either of which is fine.
        let fields = ["token", "token_server", "token_scylla_rust_driver"];
        let expected: Vec<&str> = fields
            .iter()
            .filter_map(|field| case[field].as_str())
            .collect();
        compare(token, &expected)
    });
}

#[test]
fn the_smallest_hash_is_never_a_token() {
    let Some(file) = VectorFile::open("murmur3.json") else {
        return;
    };
    file.run("normalize", files::none, |case| {
        let hash = files::text(case, "hash").parse().map_err(|_| "no number")?;
        compare(Some(Token::from_hash(hash)), &[files::text(case, "token")])
    });
}

#[test]
fn keys_of_other_partitioners_have_no_token() {
    let Some(file) = VectorFile::open("murmur3.json") else {
        return;
    };
    for list in ["random_md5", "byte_ordered"] {
        file.run(list, files::none, |case| {
            match Partitioner::Other.token(&files::bytes(case, "key_hex")) {
                None => Ok(()),
                Some(token) => Err(format!("{token:?}")),
            }
        });
    }
}

fn compare(token: Option<Token>, expected: &[&str]) -> Result<(), String> {
    let token = token.map(|token| token.0.to_string());
    match &token {
        Some(text) if expected.contains(&text.as_str()) => Ok(()),
        _ => Err(format!("token {token:?}")),
    }
}
