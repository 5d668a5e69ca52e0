#!/usr/bin/env bash
# The HTML report of gemm bench and the server's console in headless Chromium. It is apart from the
# other checks, because Chromium is a third of a gigabyte: this installs it where it is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy/install_packages.sh chromium
bazel test --config=opt --test_output=all "$@" \
  //tests/client/load:html_in_browser_test //tests/server/observe_http:console_in_browser_test
