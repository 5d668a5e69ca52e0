#!/usr/bin/env bash
# Three gemmd servers in network namespaces, and callers under load: servers are killed, stopped, cut off, slowed and
# drained, and certificates change. Callers must see no error, with the client's own balancing and behind HAProxy.
#   deploy/check/replicas.sh            each fault once or twice, under a minute on two cores
#   deploy/check/replicas.sh --long     60 s of load at least, with 20 kills, and silences that clients give up
#   deploy/check/replicas.sh --seed=7   faults in another order
# All of it is in namespaces of its own, which end with it. Where none can be had a line begins with "skipped:".
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy/install_packages.sh haproxy iproute2 openssl python3-grpcio python3-numpy python3-protobuf util-linux
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

alone=(unshare --net --mount --pid --fork --kill-child --mount-proc)
((EUID == 0)) || alone+=(--map-root-user)
"${alone[@]}" bash -e >"$work/said" 2>&1 <<'END' || {
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
ip link add name bridge type bridge
ip netns add one
ip link add name port type veth peer name eth0 netns one
END
  echo "skipped: there are no network namespaces here: $(tail -n 1 "$work/said")"
  exit 0
}
wheel=$(/usr/bin/python3 client/python/build_backend/gemmd_build.py "$work")
PYTHONPATH=$work/$wheel:tests/testing "${alone[@]}" /usr/bin/python3 deploy/check/replicas.py "$@"
