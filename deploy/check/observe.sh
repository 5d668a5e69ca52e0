#!/usr/bin/env bash
# A real Prometheus beside a real server under load: promtool's checks of the page, the rules and
# their tests; every query of the dashboard; sums of counters beside the client's own counts.
#   deploy/check/observe.sh [SECONDS]   of load and scrapes; 20 unless given
# Apart from the tests, because Prometheus is a hundred megabytes: this installs it.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-20}
deploy/install_packages.sh prometheus
promtool check config deploy/observe/prometheus.yaml
promtool test rules deploy/observe/alerts_test.yaml

mapfile -t cache < <(deploy/bazel_cache.sh)
bazel build --config=opt "${cache[@]}" //server:gemmd //client/cli:gemm
python3 deploy/check/observe.py bazel-bin/server/gemmd bazel-bin/client/cli/gemm "$seconds"
