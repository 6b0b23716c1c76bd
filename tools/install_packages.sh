#!/usr/bin/env bash
# install_packages.sh PYTHON LOCK: every package of the lock file, hashes checked.
# uv does in a third of the time what pip does, and is in the lock itself: pip installs its lines, uv the rest. It does
# not read pip's configuration, so where an index is set there and uv finds none, pip does it all. Both compile to bytecode:
# otherwise each process would, where Python must not write it (PYTHONDONTWRITEBYTECODE).
set -euo pipefail
export PIP_DISABLE_PIP_VERSION_CHECK=1

only_uv=$(mktemp)
trap 'rm -f "$only_uv"' EXIT
awk '/^[a-zA-Z]/ { on = /^uv==/ } on' "$2" >"$only_uv"

echo "packages: installing what $2 names (about a minute the first time)"
"$1" -m pip install --quiet --require-hashes -r "$only_uv"
"$1" -m uv pip install --quiet --compile-bytecode --python "$1" --require-hashes -r "$2" ||
  { echo "packages: uv could not, so pip does (slower)"; "$1" -m pip install --quiet --require-hashes -r "$2"; }
