#!/bin/sh
# locked.sh LOCK PACKAGE…: prints the lines of these packages from a lock file, with their hashes, for `pip install --require-hashes`.
set -eu

lock=$1
shift
for package in "$@"; do
  awk -v package="$package" '
    /^[a-zA-Z0-9]/ { on = index($0, package "==") == 1; found += on }
    on && !/^ *#/
    END { exit !found }
  ' "$lock" || { echo "locked.sh: $lock has no package $package" >&2; exit 1; }
done
