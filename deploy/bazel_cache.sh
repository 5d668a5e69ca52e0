#!/usr/bin/env bash
# The folder where Bazel keeps what it built, for every checkout and configuration: in
# ~/.cache/gemmd/bazel, or in $GEMMD_BAZEL_CACHE; an empty value, or no home, goes without.
#   deploy/bazel_cache.sh             prints the option for Bazel, if any
#   deploy/bazel_cache.sh prune GIB   removes what was used longest ago until GIB are free on its disk
#
# Bazel keys what it built by the sources and the command, and knows nothing of /usr/include; so
# each state of the packages that sources are compiled against has a folder of its own. Bazel 4
# never removes anything from them.
set -euo pipefail
cd "$(dirname "$0")"

root=${GEMMD_BAZEL_CACHE-${HOME:+$HOME/.cache/gemmd/bazel}}
[[ -n $root ]] || exit 0

case ${1:-} in
"")
  command -v dpkg-query >/dev/null || exit 0
  mapfile -t packages < <(grep -v '^#' packages.txt)
  key=$({ dpkg-query -W "${packages[@]}" gcc-12 clang-14 libc6-dev libstdc++-12-dev 2>&1 || true; } |
    sha256sum)
  printf -- '--disk_cache=%s/%s\n' "$root" "${key:0:16}"
  ;;
prune)
  [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "prune: how many GiB must be free, not \"${2:-}\"" >&2; exit 2; }
  mkdir -p "$root"
  missing=$((($2 << 30) - $(df --output=avail -B1 "$root" | tail -n 1)))
  # Oldest first, and no more than is missing: a file's time of access is a day behind where the file
  # system is mounted as usual, so that what looks old may be in use.
  find "$root" -type f -printf '%A@ %s %p\0' | sort -zn |
    awk -v RS='\0' -v ORS='\0' -v missing="$missing" '
      sum < missing { sum += $2; sub(/^[^ ]+ [^ ]+ /, ""); print }' |
    xargs -0r rm -f --
  find "$root" -mindepth 1 -type d -empty -delete
  du -sh "$root" | awk '{ print "the build cache holds " $1 }'
  ;;
*)
  echo "usage: deploy/bazel_cache.sh [prune GIB]" >&2
  exit 2
  ;;
esac
