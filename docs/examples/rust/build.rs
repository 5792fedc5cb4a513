//! Asks pkg-config where libvertebra_rt is.
use std::process::Command;

fn main() {
    let said = Command::new("pkg-config")
        .args(["--libs", "vertebra_rt"])
        .output()
        .expect("pkg-config is needed");
    assert!(
        said.status.success(),
        "pkg-config: {}",
        String::from_utf8_lossy(&said.stderr)
    );
    for word in String::from_utf8_lossy(&said.stdout).split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search={folder}");
        }
    }
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
}
