#!/usr/bin/env bash
# install_kernel.sh PYTHON STAMP: build the Rust kernel and install its wheel; STAMP is touched when it is in place.
# Without it everything works, slower, so only KERNEL=required makes a failed build an error.
set -euo pipefail

slower="records are decoded by the Python reference, several times slower"
log=build/kernel.log
wheels=build/kernel-wheels

[ -f kernel/Cargo.toml ] || exit 0
if ! command -v cargo >/dev/null; then
  PATH="$HOME/.cargo/bin:$PATH"
  command -v cargo >/dev/null || { echo "kernel: no cargo here, so $slower (rustup.rs brings it)"; exit 0; }
fi

echo "kernel: building with $(cargo --version) (a few minutes the first time)"
mkdir -p build
rm -rf "$wheels"
if "$1" -m maturin build --release --manifest-path kernel/Cargo.toml --interpreter "$1" --out "$wheels" >"$log" 2>&1; then
  "$1" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$wheels"/*.whl
  touch "$2"
else
  tail -n 30 "$log" >&2
  echo "kernel: the build failed (all of it: $log), so $slower" >&2
  [ "${KERNEL:-optional}" != required ]
fi
