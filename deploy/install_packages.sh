#!/usr/bin/env bash
# Installs the Debian packages of packages.txt, and those named as arguments, that are missing.
set -euo pipefail
cd "$(dirname "$0")"

mapfile -t wanted < <(grep -v '^#' packages.txt; printf '%s\n' "$@")
missing=()
for package in "${wanted[@]}"; do
  [[ -z $package ]] && continue
  if [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) != *"ok installed" ]]; then
    missing+=("$package")
  fi
done
((${#missing[@]} == 0)) && exit 0

echo "installing: ${missing[*]}"
as_root=()
((EUID == 0)) || as_root=(sudo)
"${as_root[@]}" apt-get update -q
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -q -y --no-install-recommends \
  "${missing[@]}"
