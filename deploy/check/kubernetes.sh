#!/usr/bin/env bash
# The manifests of deploy/kubernetes: rendered as they are committed, valid by Kubernetes' schemas, of
# one mind with gemmd's options (kubernetes.py, manifests.py). Half a minute.
#
# The schemas are PyPI's. Debian 12 has no kustomize; where there is a kubectl 1.32 or a kustomize 5.5,
# or a later one, it renders, and otherwise a line begins with "skipped:".
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
python3 -c 'import ensurepip, venv' 2>/dev/null || deploy/install_packages.sh python3-venv
python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install kubernetes-validate==1.37.0 || {
  echo "FAILED: PyPI cannot be reached, or has no kubernetes-validate 1.37.0" >&2
  exit 1
}
"$work/venv/bin/python" deploy/check/kubernetes.py "$@"
"$work/venv/bin/python" tests/deploy/manifests_test.py
