//! The templates are built in. `include_dir!` notices a changed file by itself, but not a new one.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../templates");
}
