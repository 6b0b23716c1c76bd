#!/usr/bin/env bash
# make_venv.sh FOLDER: a virtual environment of a Python that fits, taken from $PYTHON or from the PATH.
set -euo pipefail

fits() { command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; }

python=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
  if fits "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
  echo "Python 3.11 to 3.14 is needed; found: $(python3 --version 2>&1 || echo none). PYTHON=/path/to/python make install takes another one." >&2
  exit 1
fi

# Debian keeps what `venv` needs in a package of its own.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
  else
    echo "$python cannot make virtual environments. On Debian and Ubuntu: sudo apt-get install -y $package" >&2
    exit 1
  fi
fi

echo "venv: $("$python" --version) in $1"
"$python" -m venv "$1"
