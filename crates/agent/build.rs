//! How the agent is linked. It is copied into every pod.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let says = |name: &str, word: &str| std::env::var(name).is_ok_and(|all| all.split(',').any(|one| one == word));
    let is_gnu = says("CARGO_CFG_TARGET_OS", "linux") && says("CARGO_CFG_TARGET_ENV", "gnu");
    // A static program relocates itself, so no loader has to know how: 0.2 MiB less. Linkers that cannot do it warn.
    if is_gnu && says("CARGO_CFG_TARGET_FEATURE", "crt-static") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
