#!/bin/sh
# Makes the connector `shop`, or changes it to connector.json, and waits until it runs and has written its first topic.
set -eu

curl --fail-with-body --silent --show-error --retry 20 --retry-delay 3 --retry-all-errors \
  --request PUT --header 'Content-Type: application/json' --data @/connector/connector.json \
  http://connect:8083/connectors/shop/config >/dev/null

attempts=60
while [ "$attempts" -gt 0 ]; do
  topics=$(curl --fail --silent http://connect:8083/connectors/shop/topics || true)
  case $topics in
  *'"shop.'*) echo "the connector has written its first topics"; exit 0 ;;
  esac
  attempts=$((attempts - 1))
  sleep 2
done
echo "the connector has written no topic within two minutes:" >&2
curl --silent http://connect:8083/connectors/shop/status >&2
exit 1
