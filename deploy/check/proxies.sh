#!/usr/bin/env bash
# gemmd behind HAProxy, nginx and Caddy as deploy/proxies configures them: prints what works behind
# which, and fails where that is not the table of docs/proxies.md. A minute and a half on two cores.
#   deploy/check/proxies.sh           compares with the page
#   deploy/check/proxies.sh --write   writes the page's table
# The programs are Debian's. Debian starts them as services, on ports that this does not use.
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy/install_packages.sh haproxy nginx-light caddy python3-grpcio python3-protobuf
GEMMD_BINARY=$(realpath "${GEMMD_BINARY:-bazel-bin/server/gemmd}")
GEMM_BINARY=$(realpath "${GEMM_BINARY:-bazel-bin/client/cli/gemm}")
export GEMMD_BINARY GEMM_BINARY PYTHONDONTWRITEBYTECODE=1
for binary in "$GEMMD_BINARY" "$GEMM_BINARY"; do
  [[ -x $binary ]] || {
    echo "there is no $binary: bazel build --config=opt //server:gemmd //client/cli:gemm" >&2
    exit 1
  }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
protoc -I proto --plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin \
  --python_out="$work" --grpc_out="$work" proto/gemmd/v1/*.proto
PYTHONPATH=$work:tests/testing /usr/bin/python3 deploy/check/proxies.py "$@"
