#!/usr/bin/env bash
# Is deploy/proxies/envoy.yaml a configuration of Envoy's, by its published messages? A misspelled name fails.
# Envoy itself is in no package here, so nothing is run. Seconds; the messages are PyPI's.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -c 'import ensurepip, venv' 2>/dev/null || deploy/install_packages.sh python3-venv
python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install xds-protos==1.85.0 PyYAML || {
  echo "FAILED: PyPI cannot be reached, or has no xds-protos 1.85.0" >&2
  exit 1
}
"$work/venv/bin/python" - deploy/proxies/envoy.yaml <<'PY'
import sys

import yaml
from envoy.config.bootstrap.v3 import bootstrap_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: F401
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2  # noqa: F401
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2  # noqa: F401
from google.protobuf import json_format

settings = yaml.safe_load(open(sys.argv[1]))
json_format.ParseDict(settings, bootstrap_pb2.Bootstrap())
# A name that is misspelled anywhere is found, behind "@type" too.
route = settings["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
route["virtual_hosts"][0]["routes"][0]["route"]["time_out"] = "0s"
try:
    json_format.ParseDict(settings, bootstrap_pb2.Bootstrap())
except json_format.ParseError:
    print(f"{sys.argv[1]} is a configuration of Envoy's; it has not run")
else:
    sys.exit("a misspelled name is not found")
PY
