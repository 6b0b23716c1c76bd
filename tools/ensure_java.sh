#!/usr/bin/env bash
# ensure_java.sh PYTHON: a Java that Spark runs on. As root on Debian or Ubuntu it is installed, elsewhere the one
# command that does it is said (changefeed.spark_runtime.java knows it).
set -euo pipefail

if "$1" -m changefeed.spark_runtime.java 2>/dev/null; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "java: installing a runtime with apt-get"
  apt-get update -qq
  for version in 17 21; do
    if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "openjdk-$version-jre-headless" >/dev/null; then
      break
    fi
  done
fi
exec "$1" -m changefeed.spark_runtime.java
