#!/usr/bin/env bash
# The checks that need no build, in seconds: formatting, layers, comments, pages and their links, claims, planted faults,
# shell scripts. The hook deploy/hooks/pre-commit calls it.
#   deploy/check/quick.sh            the whole tree
#   deploy/check/quick.sh --changed  of C++ and shell only what differs from the last commit
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

list=(git ls-files)
case ${1:-} in
"") ;;
--changed) list=(git diff --name-only --diff-filter=d HEAD --) ;;
*)
  echo "usage: deploy/check/quick.sh [--changed]" >&2
  exit 2
  ;;
esac

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
# Runs a check, given on standard input, and prints what it says only where it fails.
check() {
  if ! bash -o pipefail >"$log" 2>&1; then
    printf '== %s\n' "$1"
    cat "$log"
    failed=1
  fi
}

mapfile -t cpp < <("${list[@]}" '*.cc' '*.h' '*.hpp' '*.cu' '*.cuh')
mapfile -t shell < <("${list[@]}" '*.sh' .ci/run deploy/hooks/)
check clang-format <<<"printf '%s\n' ${cpp[*]} | xargs -r -P 2 -n 200 ${CLANG_FORMAT:-clang-format-14} --dry-run --Werror"
check shellcheck <<<"printf '%s\n' ${shell[*]} | xargs -r -P 2 shellcheck"
for test in tidy/layers tidy/comments tidy/documents tidy/benchmarks planted/faults; do
  check "$test" <<<"python3 tests/${test}_test.py"
done
exit "$failed"
