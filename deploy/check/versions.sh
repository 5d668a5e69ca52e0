#!/usr/bin/env bash
# The last release and today's tree side by side: its Python client, as it was, calls today's server under load beside
# today's client, and its wire contract is compared with today's. 20 s; git has all that it needs of the release.
#   deploy/check/versions.sh                       the last release
#   deploy/check/versions.sh REVISION              another revision
#   OLD_GEMMD=release/0.2.0/.../gemmd deploy/check/versions.sh     today's client with that server, too
# Where the clone does not have the revision, a line begins with "skipped:".
set -euo pipefail
cd "$(dirname "$0")/../.."

# 0.2.0 was not tagged: this is the last commit before 0.3.0 began.
last=$(git tag --list 'v[0-9]*' --sort=-v:refname | head -n 1)
revision=${1:-${last:-f4e447b7}}
git cat-file -e "$revision^{commit}" 2>/dev/null || {
  echo "skipped: this clone does not have the last release, $revision"
  exit 0
}
deploy/install_packages.sh python3-grpcio python3-numpy python3-protobuf
GEMMD_BINARY=$(realpath "${GEMMD_BINARY:-bazel-bin/server/gemmd}")
export GEMMD_BINARY PYTHONDONTWRITEBYTECODE=1
[[ -x $GEMMD_BINARY ]] || {
  echo "there is no $GEMMD_BINARY: bazel build --config=opt //server:gemmd" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/old" "$work/new"
git archive "$revision" | tar -x -C "$work/tree"
build() { /usr/bin/python3 "$1/client/python/build_backend/gemmd_build.py" "$2"; }
old=$work/old/$(build "$work/tree" "$work/old")
new=$work/new/$(build . "$work/new")
PYTHONPATH=tests/testing /usr/bin/python3 deploy/check/versions.py "$revision" "$old" "$new"
