#!/usr/bin/env bash
# libgemmd_blas.so under programs that know nothing of it, every product sent to a server on the CPU: reference BLAS's
# tests, the programs of docs/blas.md, and the names that PyPI's NumPy and SciPy call. Two minutes once pip has the wheels.
#   deploy/check/blas.sh        the server and the libraries that Bazel built
#   deploy/check/blas.sh all    Octave and R too, which bring many packages: once for a release
#   GEMMD_BINARY=PATH ...       another server
#   GEMMD_BLAS_SUITES=1 ...     and NumPy's and SciPy's own tests of linear algebra with and without, ten minutes
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
step() { printf '== %s\n' "$*"; }

case ${1:-} in
"" | all) ;;
*)
  echo "usage: deploy/check/blas.sh [all]" >&2
  exit 2
  ;;
esac
has_all=${1:-}

server=$(realpath "${GEMMD_BINARY:-bazel-bin/server/gemmd}")
shim=$(realpath bazel-bin/client/blas/libgemmd_blas.so)
library=$(realpath bazel-bin/client/c/libgemmd.so.0)
[[ -x $server ]] || fail "there is no server at $server: bazel build --config=opt //server:gemmd"
[[ -f $shim && -f $library ]] ||
  fail "there is no library: bazel build --config=opt //client/blas:libgemmd_blas //client/c:libgemmd"
deploy/install_packages.sh gcc gfortran libblas-test libblas3 libopenblas0-pthread python3-numpy python3-venv \
  ${has_all:+octave r-base-core}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$server" --device=cpu --listen="unix:$work/socket" 2>"$work/server.log" &
trap 'kill %1; wait; rm -rf "$work"' EXIT
until grep -q '"event":"serving"' "$work/server.log"; do
  kill -0 %1 || fail "$(cat "$work/server.log")"
  sleep 0.05
done
install -D -t "$work/lib" "$shim" "$library"
shim=$work/lib/libgemmd_blas.so

# A command with the library preloaded; its standard error, and so the report, is $work/said.
with() {
  GEMMD_SERVER="unix:$work/socket" GEMMD_BLAS_MODE=always GEMMD_BLAS_REPORT=1 LD_PRELOAD="$shim" "$@" 2>"$work/said"
}
# The products that the server computed for the last command; fails where it said more than its report, or there were
# fewer than $1.
products() {
  local said
  said=$(sed -n 's/^gemmd_blas: the server computed \([0-9]*\) products$/\1/p' "$work/said")
  ! grep -v '^gemmd_blas: calls by\|^gemmd_blas: the server computed\|^routine\|^[sdcz][a-z0-9]*  *[0-9]' \
    "$work/said" | grep gemmd_blas || fail "something did not go there"
  ((${said:-0} >= $1)) || fail "the server computed ${said:-0} products, $1 at least were to be: $(cat "$work/said")"
  printf '   %-34s %6d products there\n' "$2" "$said"
}

step "reference BLAS's tests of the third level"
tests=/usr/lib/x86_64-linux-gnu/blas
# Debian's tests by C names need symbols of reference BLAS, and do not start with OpenBLAS, with or without this library.
level3() {
  local blas=$1 program=$2 input=$3 passes=$4 least=$5 said
  (cd "$work" && LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/$blas with "$tests/$program" <"$tests/$input") >"$work/out" ||
    fail "$program with $blas: $(cat "$work/out" "$work/said")"
  # The Fortran programs write into a file of the folder.
  cat "$work"/?blat3.out >>"$work/out" 2>/dev/null || true
  said=$(cat "$work/out")
  rm -f "$work"/?blat3.out
  ! grep -i 'fail\|\*\*\*' <<<"$said" || fail "$program with $blas"
  (($(grep -c ' PASSED THE ' <<<"$said") == passes)) || fail "$program with $blas passed other than $passes parts"
  products "$least" "$program, $blas"
}
for blas in openblas-pthread blas; do
  level3 "$blas" xblat3s sblat3.in 12 17000
  level3 "$blas" xblat3d dblat3.in 12 17000
  level3 "$blas" xblat3c cblat3.in 18 17000
  level3 "$blas" xblat3z zblat3.in 18 17000
done
level3 blas xscblat3 sin3 18 34000
level3 blas xdcblat3 din3 18 34000
level3 blas xccblat3 cin3 27 34000
level3 blas xzcblat3 zin3 27 34000

step "NumPy and SciPy of PyPI"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q numpy==2.4.6 scipy==1.17.1
"$work/venv/bin/python" -c 'import numpy, scipy; print("   numpy", numpy.__version__, "scipy", scipy.__version__)'
# The names of these routines that modules call and this library does not have.
nm -D --defined-only "$shim" | awk '{ print $NF }' | sort >"$work/exported"
find "$work/venv" -name '*.so' -exec nm -D --undefined-only {} + 2>/dev/null | awk '{ print $NF }' |
  grep -E '[sdcz](gemm|gemmt|syrk|syr2k|symm|trmm|trsm|herk|her2k|hemm)[0-9_]*$' | sort -u >"$work/called"
(($(wc -l <"$work/called") >= 30)) || fail "the wheels call too few names: this check looks for others than they have"
missing=$(comm -23 "$work/called" "$work/exported")
[[ -z $missing ]] || fail "the wheels call names that libgemmd_blas.so does not have: $missing"

# The block number $2 of the page's language $1.
block() {
  awk -v fence="\`\`\`$1" -v wanted="$2" \
    '$0 == "```" { inside = 0 } inside && count == wanted { print } $0 == fence { inside = 1; ++count }' docs/blas.md
}
run() {
  local name=$1
  shift
  with "$@" >"$work/out" || fail "$name: $(cat "$work/out" "$work/said")"
  products 1 "$name"
}
block python 1 >"$work/page_numpy.py"
block python 2 >"$work/page_scipy.py"
run "PyPI's NumPy" "$work/venv/bin/python" "$work/page_numpy.py"
run "PyPI's SciPy" "$work/venv/bin/python" "$work/page_scipy.py"

step "the page's other programs"
run "Debian's NumPy" /usr/bin/python3 "$work/page_numpy.py"
if [[ $has_all ]]; then
  block octave 1 >"$work/products.m"
  run "Octave" octave-cli "$work/products.m"
  block r 1 >"$work/products.R"
  run "R" Rscript "$work/products.R"
fi
block fortran 1 >"$work/products.f90"
gfortran "$work/products.f90" -o "$work/products" -lblas
run "Fortran" "$work/products"

step "as libblas.so.3"
block sh 1 | sed "s,~/gemmd,$work,; s,\$HOME/gemmd,$work," >"$work/alternative.sh"
(cd "$work" && bash -e alternative.sh)
LD_LIBRARY_PATH=$work GEMMD_SERVER="unix:$work/socket" GEMMD_BLAS_MODE=always GEMMD_BLAS_REPORT=1 \
  /usr/bin/python3 "$work/page_numpy.py" 2>"$work/said" || fail "$(cat "$work/said")"
products 1 "Debian's NumPy"

step "calls too small to ask about"
gcc -O2 -Wall -Wextra -Werror tests/client/blas/small_calls.c -o "$work/small_calls"
OPENBLAS_NUM_THREADS=1 GEMMD_SERVER="unix:$work/socket" LD_PRELOAD=$shim "$work/small_calls" libopenblas.so.0

if [[ ${GEMMD_BLAS_SUITES:-} == 1 ]]; then
  step "NumPy's and SciPy's tests of linear algebra"
  "$work/venv/bin/pip" install -q pytest hypothesis
  suite() {
    (cd "$work" && "$@" "$work/venv/bin/python" -m pytest -q -p no:cacheprovider --pyargs numpy.linalg scipy.linalg) |
      tail -n 1 | sed 's/ in .*//'
  }
  without=$(suite env)
  with=$(suite with)
  [[ $with == "$without" ]] || fail "without: $without; with: $with"
  products 10000 "$with"
fi
echo "libgemmd_blas.so computed on the server what these programs asked of BLAS, and all was right"
