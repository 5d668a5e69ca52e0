#!/usr/bin/env bash
# Builds the image, starts it from deploy/kubernetes/rendered/cpu.yaml, calls it, and drains it
# under load, with nothing from a registry: the base is a minimal Debian 12 made here.
#
# Needs podman, mmdebstrap, a Debian archive, NumPy; about two minutes besides the build. If one of
# them is not here, or containers cannot run, it says so in a line that begins with "skipped:", and
# ends with 0. Podman's settings (CONTAINERS_CONF, CONTAINERS_STORAGE_CONF) are honoured; without
# them it uses runc and plain control groups, which work inside virtual machines too. The store is a
# temporary one, so nothing is left behind.
#   deploy/check/container.sh            with the binaries that `bazel build` makes here
#   deploy/check/container.sh --whole    the image compiles them itself, without GPU code
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() {
  echo "skipped: $*"
  exit 0
}
for command in podman mmdebstrap runc /usr/bin/python3; do
  command -v "$command" >/dev/null || skip "there is no $command here"
done

base=docker.io/library/debian:bookworm-slim
work=$(mktemp -d)
yaml=$work/gemmd.yaml
pod() { podman --root "$work/storage" --runroot "$work/run" "$@"; }
cleanup() {
  pod kube down "$yaml" >/dev/null 2>&1 || true
  pod system reset --force >/dev/null 2>&1 || true
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
if [[ -z ${CONTAINERS_CONF:-} ]]; then
  export CONTAINERS_CONF=$work/containers.conf
  # Podman asks for more files and processes than root may have where it lacks CAP_SYS_RESOURCE.
  cat >"$CONTAINERS_CONF" <<'TOML'
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
TOML
fi
step() { printf '\n== %s\n' "$*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

step "base: a minimal Debian 12 as $base"
mmdebstrap --quiet --variant=minbase bookworm "$work/base.tar" ||
  skip "no Debian archive can be reached"
pod import --quiet "$work/base.tar" "$base" >/dev/null
rm "$work/base.tar"
pod run --rm "$base" /usr/bin/true 2>"$work/why" ||
  skip "containers cannot run here: $(tail -n 1 "$work/why")"

step "image"
mapfile -t cache < <(deploy/bazel_cache.sh)
bazel build --config=opt "${cache[@]}" //server:gemmd //client/cli:gemm
arguments=(--build-arg "CUDA=" --build-arg VERSION=0.2.0)
if [[ ${1:-} != --whole ]]; then
  deploy/image/root.py bazel-bin/server/gemmd bazel-bin/client/cli/gemm "$work/binaries/out"
  tar -C "$work/binaries" -c out | pod import --quiet - localhost/gemmd-binaries >/dev/null
  arguments+=(--build-arg BINARIES=localhost/gemmd-binaries)
fi
# Chroot isolation, because CI runs this where containers cannot be nested.
build() {
  pod build --quiet --format=docker --isolation=chroot --pull=never --timestamp=0 "$@" \
    "${arguments[@]}" -f deploy/image/Containerfile .
}
build -t gemmd:0.2.0 >/dev/null
pod image inspect gemmd:0.2.0 --format 'image of {{.Size}} bytes, user {{.User}}, {{.Config.Entrypoint}}'
# Their names differ: Docker's format has the number of the container that was built in.
layers() { pod image inspect "$1" --format '{{.RootFS.Layers}}'; }
[[ $(layers "$(build --no-cache)") == "$(layers gemmd:0.2.0)" ]] ||
  fail "a second build of the same binaries has other layers"
echo "a second build has the same layers: $(layers gemmd:0.2.0)"

step "what is in it"
mkdir "$work/saved" "$work/root"
pod image save --format=docker-archive gemmd:0.2.0 | tar -C "$work/saved" -x
for layer in $(/usr/bin/python3 -c 'import json, sys
print(*json.load(open(sys.argv[1]))[0]["Layers"])' "$work/saved/manifest.json"); do
  tar -C "$work/root" -xf "$work/saved/$layer"
done
mapfile -t runnable < <(cd "$work/root" && find . -type f -perm /111 | sort)
printf '%s\n' "${runnable[@]}"
if printf '%s\n' "${runnable[@]}" | grep -qvE '^\./usr/(local/bin/gemmd?|lib(64)?/([^/]+/)?[^/]*\.so[.0-9]*)$'; then
  fail "something besides gemmd, gemm and libraries can be run"
fi
# Every library has its package, its licence and its entry in the list.
/usr/bin/python3 - "$work/root" <<'PYTHON'
import json
import pathlib
import sys

root = pathlib.Path(sys.argv[1])
sbom = json.loads((root / "usr/share/sbom/gemmd.spdx.json").read_text())
names = {each["name"] for each in sbom["packages"]} - {"gemmd"}
for name in names:
    assert (root / "usr/share/doc" / name / "copyright").is_file(), f"{name} has no licence"
installed = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
assert installed <= names, installed - names
besides = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and "local/bin" not in str(path))
print(f"{len(names)} packages listed, {len(installed)} of them installed; {besides} bytes besides the programs")
assert besides <= 16 << 20, "more than 16 MiB besides the programs"
PYTHON

step "start, from the overlay cpu of deploy/kubernetes"
# However slow the machine is, what is to be drained must be let into the queue first.
sed 's/^\( *\)- --device=cpu/&\n\1- --scheduling.max-queued-ms=3600000/' \
  deploy/kubernetes/rendered/cpu.yaml >"$yaml"
diff deploy/kubernetes/rendered/cpu.yaml "$yaml" || true
pod kube play "$yaml" >/dev/null
container=$(pod ps --filter ancestor=localhost/gemmd:0.2.0 --format '{{.Names}}')
[[ -n $container ]] || fail "kube play started no container of the image"
address=$(pod inspect "$(pod ps --filter name=infra --format '{{.Names}}')" \
  --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}')
# Rootless, the pod's address is not the host's to reach, but the port is published.
export GEMMD_SERVER=${address:-127.0.0.1}:50051
((EUID == 0)) || GEMMD_SERVER=127.0.0.1:50051
gemm=bazel-bin/client/cli/gemm
for ((i = 0; ; ++i)); do
  "$gemm" info >"$work/info" 2>&1 && break
  ((i < 300)) || { cat "$work/info" >&2; pod logs "$container" >&2; fail "no answer in 30 s"; }
  sleep 0.1
done
cat "$work/info"

step "metrics and health over HTTP"
/usr/bin/python3 - "http://${GEMMD_SERVER%:*}:9464" <<'PYTHON'
import sys
import urllib.request

read = lambda path: urllib.request.urlopen(sys.argv[1] + path, timeout=10).read().decode()
print("/readyz says", read("/readyz").strip())
lines = [line for line in read("/metrics").splitlines() if line.startswith("gemmd_build_info")]
assert lines, "/metrics has no gemmd_build_info"
print(lines[0])
PYTHON

step "the image's health check"
mapfile -t health < <(pod image inspect gemmd:0.2.0 --format '{{range .HealthCheck.Test}}{{println .}}{{end}}')
[[ ${health[0]} == CMD ]] || fail "the image has no health check that needs no shell: ${health[*]}"
mapfile -t health < <(printf '%s\n' "${health[@]:1}" | sed '/^$/d')
echo "${health[*]}"
pod exec "$container" "${health[@]}" || fail "it says that the server is not healthy"
if pod exec --env GEMMD_SERVER=127.0.0.1:1 "$container" "${health[@]}" 2>"$work/why"; then
  fail "it says that a server is healthy where there is none"
fi
cat "$work/why"

step "what the process may do"
process=$(pod inspect "$container" --format '{{.State.Pid}}')
state=$(</proc/"$process"/status)
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' <<<"$state"
grep -q $'^Uid:\t65532\t65532' <<<"$state" || fail "it does not run as 65532"
grep -q $'^CapBnd:\t0000000000000000' <<<"$state" || fail "it may gain capabilities"
grep -q $'^NoNewPrivs:\t1' <<<"$state" || fail "it may gain privileges"
grep -q $'^Seccomp:\t2' <<<"$state" || fail "no seccomp filter"
awk '$5 == "/" {print $6}' "/proc/$process/mountinfo" | grep -qE '^ro(,|$)' ||
  fail "the root file system is writable"
echo "the root file system is read-only"
if pod exec "$container" /bin/sh -c true 2>"$work/why"; then
  fail "a shell starts in it"
fi

step "calls: a product in f32, and one of fp8 codes with scales"
/usr/bin/python3 - "$work" <<'PYTHON'
import sys
import numpy

random = numpy.random.default_rng(2026)
save = lambda name, x: numpy.save(f"{sys.argv[1]}/{name}.npy", x)
save("A", random.standard_normal((900, 700)).astype("f4"))
save("B", random.standard_normal((700, 500)).astype("f4"))
save("L", random.integers(-128, 128, (4000, 4000)).astype("i1"))
# E4M3 codes of 0.25 to 448, both signs: exponent and fraction, no NaN.
codes = lambda *shape: (random.integers(0x28, 0x7F, shape) | 0x80 * random.integers(0, 2, shape))
save("Q", codes(70, 90).astype("u1"))
save("W", codes(90, 50).astype("u1"))
save("q", random.uniform(0.01, 1, 70).astype("f4"))
save("w", random.uniform(0.01, 1, 50).astype("f4"))
PYTHON
"$gemm" matmul "$work/A.npy" "$work/B.npy" -o "$work/D.npy"
"$gemm" matmul "$work/Q.npy" "$work/W.npy" --type fp8-e4m3 --a-scales "$work/q.npy" \
  --b-scales "$work/w.npy" --output-type f32 -o "$work/P.npy" | head -n 3
/usr/bin/python3 - "$work" <<'PYTHON'
import sys
import numpy

a, b, d, q, w, q_scales, w_scales, p = (
    numpy.load(f"{sys.argv[1]}/{name}.npy") for name in ("A", "B", "D", "Q", "W", "q", "w", "P"))
# E4M3 by its definition; every code here is normal.
value = lambda c: (numpy.where(c & 0x80, -1.0, 1.0)
                   * numpy.ldexp(1 + (c & 7) / 8, ((c >> 3) & 15).astype("i4") - 7))
for name, result, exact in (
        ("f32", d, a.astype("f8") @ b.astype("f8")),
        ("fp8", p, (value(q) * q_scales[:, None]) @ (value(w) * w_scales))):
    error = numpy.linalg.norm(result - exact) / numpy.linalg.norm(exact)
    print(f"{name}: relative error {error:.1e} against NumPy, at most 1e-05 allowed")
    assert error <= 1e-5, "the product is wrong"
PYTHON

step "drain by SIGTERM under load"
calls=5
clients=()
for ((i = 0; i < calls; ++i)); do
  "$gemm" matmul "$work/L.npy" "$work/L.npy" >"$work/answer-$i" 2>&1 &
  clients+=($!)
done
received() {
  "$gemm" --json stats | /usr/bin/python3 -c 'import json, sys
print(json.load(sys.stdin)["received_requests"])'
}
# Requests count by their headers, which let them in: SIGTERM comes while payloads are still on
# their way.
for ((i = 0; ; ++i)); do
  now=$(received)
  ((now >= calls + 2)) && break  # the two products before are among them
  ((i < 300)) || fail "only $((now - 2)) of $calls requests came"
done
# The pod ends as a kubelet ends it: SIGTERM, and SIGKILL when the grace period is over.
grace=$(sed -n 's/.*terminationGracePeriodSeconds: *//p' "$yaml")
pod stop --time "$grace" "$container" >/dev/null &
stopping=$!
until pod logs "$container" 2>&1 | grep -q '"event":"draining"'; do
  kill -0 "$stopping" 2>/dev/null || fail "it ended without draining"
done
if "$gemm" matmul "$work/A.npy" "$work/B.npy" >"$work/late" 2>&1; then
  fail "a draining server took a new request"
fi
cat "$work/late"
failed=0
for ((i = 0; i < calls; ++i)); do
  wait "${clients[i]}" || { cat "$work/answer-$i" >&2; failed=$((failed + 1)); }
done
wait "$stopping"
code=$(pod inspect "$container" --format '{{.State.ExitCode}}')
pod logs "$container" 2>&1 | tail -n 2  # how many were in flight at SIGTERM, and at the end
((failed == 0)) || fail "$failed of $calls admitted requests failed"
((code == 0)) || fail "the container ended with $code"
echo "all $calls finished; the container ended with 0"

step "not checked here"
cat <<'TEXT'
- a GPU: nvidia.com/gpu, NVIDIA's device plugin and container toolkit, --device=cuda
- Kubernetes itself: Podman ignores gRPC probes, preStop, terminationGracePeriodSeconds, the update
  strategy, and all objects but the Deployment
- deploy/compose/compose.yaml, and the Containerfile's CUDA packages, which are NVIDIA's
TEXT
[[ ${1:-} == --whole ]] || echo "- the Containerfile's build stage: run with --whole"
echo "the container starts, answers, is confined and drains"
