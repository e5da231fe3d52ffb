//! Writes the seed corpus from the samples: `cargo run -p messina-fuzz --example write_corpus`. Files that were added
//! by hand, such as inputs that once failed, stay.

use std::fs;
use std::io;
use std::path::Path;

use messina_fuzz::TARGETS;
use messina_fuzz::samples::corpus;

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, _) in TARGETS {
        let folder = root.join(target);
        fs::create_dir_all(&folder)?;
        for sample in corpus(target) {
            fs::write(folder.join(&sample.name), &sample.bytes)?;
        }
    }
    Ok(())
}
