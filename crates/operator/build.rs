//! Relocations in their short form: a quarter of a static program's start, and a MiB that would stay in memory. Linkers that do not
//! know it go without.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
