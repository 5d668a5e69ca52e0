#!/usr/bin/env bash
# Releases the version that is checked out. docs/releasing.md is the checklist around it.
#   deploy/release.sh 0.2.0                checks the tree, passes .ci/run --whole, builds, tags
#   deploy/release.sh --dry-run 0.2.0      checks the tree, and says what else it would do
#   deploy/release.sh --skip=ci 0.2.0      leaves out a step; the tag's message says so
#
# Steps that can be left out, each by its name: ci, binaries, wheel. No check of the tree can be.
# The files to release lie in release/VERSION afterwards. Nothing is pushed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  echo "usage: deploy/release.sh [--dry-run] [--skip=ci|binaries|wheel]... VERSION" >&2
  exit 2
}

version=
dry_run=
skipped=()
for argument in "$@"; do
  case $argument in
  --dry-run) dry_run=1 ;;
  --skip=ci | --skip=binaries | --skip=wheel) skipped+=("${argument#--skip=}") ;;
  --skip=*)
    echo "--skip: \"${argument#--skip=}\" is no step that can be left out: ci, binaries, wheel" >&2
    exit 2
    ;;
  -*) usage ;;
  *)
    [[ -z $version ]] || usage
    version=$argument
    ;;
  esac
done
[[ $version =~ ^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$ ]] || {
  echo "the version is \"$version\", and must be three numbers: 0.2.0" >&2
  usage
}
readonly version dry_run tag=v$version out=release/$version

failures=0
ok() { printf 'ok      %s\n' "$*"; }
bad() {
  printf 'FAILED  %s\n' "$*"
  failures=$((failures + 1))
}

# ---------------------------------------------------------------- checks of the tree

check_clean() {
  local changed
  changed=$(git status --porcelain)
  if [[ -z $changed ]]; then
    ok "the tree is clean"
  else
    bad "the tree has changes that are not committed:"$'\n'"$changed"
  fi
}

check_version_header() {
  local found
  found=$(sed -n 's/.*kVersion\[\] = "\(.*\)";.*/\1/p' base/version.h)
  if [[ $found == "$version" ]]; then
    ok "base/version.h says $version"
  else
    bad "base/version.h says \"$found\""
  fi
}

# As the wheel's own builder finds it.
check_python() {
  local found
  found=$(python3 -B -c 'import gemmd_build; print(gemmd_build._version())' 2>&1) || true
  if [[ $found == "$version" ]]; then
    ok "the Python client says $version"
  else
    bad "the Python client says \"$found\""
  fi
}

# Images and wheels that pages and files name. The changelog speaks of the past.
check_names() {
  local others
  others=$(git grep -nE '\b(gemmd:|gemmd_client-)[0-9]+\.[0-9]+\.[0-9]+' -- \
    ':!CHANGELOG.md' ':!tests/deploy' ':!deploy/release.sh' |
    grep -vE "(gemmd:|gemmd_client-)${version//./\\.}([^0-9]|$)" || true)
  if [[ -z $others ]]; then
    ok "images and wheels are named after $version"
  else
    bad "other versions are named:"$'\n'"$others"
  fi
}

check_changelog() {
  local heading date
  heading=$(grep -m 1 '^## ' CHANGELOG.md || true)
  date=$(sed -nE "s/^## ${version//./\\.} \(([0-9]{4}-[0-9]{2}-[0-9]{2})\)\$/\1/p" <<<"$heading")
  if [[ -z $date ]]; then
    bad "CHANGELOG.md begins with \"$heading\", and should with \"## $version (YYYY-MM-DD)\""
  elif ! date -d "$date" >/dev/null 2>&1; then
    bad "CHANGELOG.md: $date is no day"
  elif [[ $date > $(date -I) ]]; then
    bad "CHANGELOG.md: $date has not come yet"
  elif [[ -z $(changes) ]]; then
    bad "CHANGELOG.md says nothing of $version"
  else
    ok "CHANGELOG.md has $version, of $date"
  fi
}

# The version's part of CHANGELOG.md, without its heading.
changes() {
  awk -v heading="## $version " '
    /^## / { inside = index($0, heading) == 1; next }
    inside { print }' CHANGELOG.md | sed -e '/./,$!d'
}

check_tag() {
  local last
  last=$(git tag --list 'v[0-9]*' | sort -V | tail -n 1)
  if [[ -n $(git tag --list "$tag") ]]; then
    bad "the tag $tag is there already"
  elif [[ -n $last && $(printf '%s\n%s\n' "$last" "$tag" | sort -V | tail -n 1) != "$tag" ]]; then
    bad "the tag $last is of a later version"
  else
    ok "the tag $tag is free"
  fi
}

export PYTHONPATH=client/python/build_backend
check_clean
check_version_header
check_python
check_names
check_changelog
check_tag
if ((failures > 0)); then
  echo "$version is not ready: $failures of 6 checks failed" >&2
  exit 1
fi

# ---------------------------------------------------------------- steps

run_ci() { .ci/run --whole; }

# The server and the command line for every GPU architecture of the build, without symbols.
build_binaries() {
  local folder=gemmd-$version-linux-amd64
  mapfile -t cache < <(deploy/bazel_cache.sh)
  bazel build --config=opt "${cache[@]}" //server:gemmd //client/cli:gemm //client/c:libgemmd \
    //client/blas:libgemmd_blas
  install -D -s -t "$work/$folder/bin" bazel-bin/server/gemmd bazel-bin/client/cli/gemm
  client/c/install.sh bazel-bin/client/c/libgemmd.so.0 client/include/gemmd "$version" "$work/$folder"
  install -D -m 644 -s -t "$work/$folder/lib" bazel-bin/client/blas/libgemmd_blas.so
  cp LICENSE README.md CHANGELOG.md "$work/$folder"
  local said
  for said in "$("$work/$folder/bin/gemmd" --version)" "$("$work/$folder/bin/gemm" --version)"; do
    [[ $said == *" $version" ]] || {
      echo "what was built says \"$said\"" >&2
      return 1
    }
  done
  # Equal trees give equal bytes: no names of users, and the commit's time.
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$(git log -1 --format=%ct)" -cJf "$out/$folder.tar.xz" "$folder"
}

build_wheel() { python3 -B client/python/build_backend/gemmd_build.py "$out"; }

# Verbatim, because the changelog's headings look like git's comments.
make_tag() {
  local left_out=()
  ((${#skipped[@]} == 0)) || left_out=(-m "Left out: ${skipped[*]}.")
  git tag --annotate --cleanup=verbatim "$tag" -m "gemmd $version" "${left_out[@]}" -m "$(changes)"
}

is_skipped() { [[ " ${skipped[*]-} " == *" $1 "* ]]; }

# A step's name, what it does, and the command.
step() {
  local name=$1 what=$2
  shift 2
  if is_skipped "$name"; then
    printf 'skipped %s: %s\n' "$name" "$what"
  elif [[ -n $dry_run ]]; then
    printf 'would   %s: %s\n' "$name" "$what"
  else
    printf '\n== %s: %s\n' "$name" "$what"
    "$@"
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head=$(git rev-parse HEAD)
[[ -n $dry_run ]] || mkdir -p "$out"

step ci ".ci/run --whole passes" run_ci
step binaries "gemmd and gemm, as a tar file in $out" build_binaries
step wheel "the Python client, as a wheel in $out" build_wheel
if [[ -n $dry_run ]]; then
  echo "would   tag: $tag at $head"
  exit 0
fi

# CI takes long enough for somebody to go on working here.
if [[ $(git rev-parse HEAD) != "$head" || -n $(git status --porcelain) ]]; then
  echo "the tree changed meanwhile: $version is not tagged" >&2
  git status --short >&2
  exit 1
fi
rm -f "$out/SHA256SUMS"
(cd "$out" && find . -type f -printf '%P\n' | sort | xargs -r sha256sum) >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" "$out"
make_tag
printf '\n%s is tagged at %s, and lies in %s:\n' "$version" "$head" "$out"
cat "$out/SHA256SUMS"
echo "to publish it: git push origin main $tag"
