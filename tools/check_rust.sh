#!/usr/bin/env bash
# check_rust.sh: form, lints and tests of the Rust kernel, where there is a cargo. The Python module is linted but not
# tested here: tests/kernel holds it against the reference.
set -euo pipefail

command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"
command -v cargo >/dev/null || { echo "check-rust: no cargo here, so the kernel's own checks are skipped (rustup.rs brings it)"; exit 0; }

cd kernel
cargo fmt --check
cargo clippy --locked --quiet --all-targets --features python -- -D warnings
cargo test --locked --quiet
