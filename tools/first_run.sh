#!/usr/bin/env bash
# first_run.sh PYTHON: a pipeline over a few generated changes, whose JVM leaves an archive of Spark's classes in the user's
# cache. Without the archive everything works, and Spark starts more slowly.
set -uo pipefail

echo "classes: a first run, after which Spark starts faster"
"$1" -m changefeed.cli bench apply --rows 2000 --tables 5 >/dev/null 2>&1 &&
  "$1" -m changefeed.spark_runtime.class_archive >/dev/null ||
  echo "classes: there is no archive of Spark's classes, so Spark starts more slowly" >&2
