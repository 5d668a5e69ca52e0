#!/usr/bin/env bash
# docs/library.md's programs in C++ by CMake's find_package(gemmd) and in Fortran, against what client/c/install.sh
# lays out, and run against a server, in ten seconds.
#   deploy/check/library.sh     the server and the library that Bazel built
#   GEMMD_BINARY=PATH ...       another server
#   GEMMD_LIBRARY=PATH ...      another libgemmd.so.0
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
step() { printf '== %s\n' "$*"; }

server=$(realpath "${GEMMD_BINARY:-bazel-bin/server/gemmd}")
library=$(realpath "${GEMMD_LIBRARY:-bazel-bin/client/c/libgemmd.so.0}")
[[ -x $server ]] || fail "there is no server at $server: bazel build --config=opt //server:gemmd"
[[ -f $library ]] || fail "there is no library at $library: bazel build --config=opt //client/c:libgemmd"
deploy/install_packages.sh cmake g++ gfortran make pkg-config

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/.*kVersion\[\] = "\(.*\)";.*/\1/p' base/version.h)
client/c/install.sh "$library" client/include/gemmd "$version" "$work/laid"
mv "$work/laid" "$work/gemmd" # as a user may

# The block number $2 of the page's language $1.
block() {
  awk -v fence="\`\`\`$1" -v wanted="$2" \
    '$0 == "```" { inside = 0 } inside && count == wanted { print } $0 == fence { inside = 1; ++count }' docs/library.md
}
block cpp 1 >"$work/first.cc"
block cmake 1 >"$work/CMakeLists.txt"

step "the page's program by CMake"
build() {
  cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/gemmd" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
  cmake --build "$work/build"
}
(build) >"$work/log" 2>&1 || fail "$(cat "$work/log")"

step "the page's program in Fortran, and sizes of structs as C has them"
block fortran 1 >"$work/first.f90"
cat >"$work/sizes.f90" <<'F90'
program sizes
  use gemmd
  type(gemmd_client_options) :: client
  type(gemmd_array) :: array
  type(gemmd_operand) :: operand
  type(gemmd_matmul_options) :: matmul
  client = gemmd_client_options_init()
  array = gemmd_array_init()
  operand = gemmd_operand_init()
  matmul = gemmd_matmul_options_init()
  print '(4(i0, :, 1x))', client%size, array%size, operand%size, matmul%size
end program
F90
cat >"$work/sizes.c" <<'C'
#include <gemmd/gemmd.h>
#include <stdio.h>
int main(void) {
  printf("%zu %zu %zu %zu\n", sizeof(gemmd_client_options), sizeof(gemmd_array), sizeof(gemmd_operand),
         sizeof(gemmd_matmul_options));
  return 0;
}
C
export PKG_CONFIG_PATH=$work/gemmd/lib/pkgconfig
found="$(pkg-config --cflags --libs gemmd) -Wl,-rpath,$work/gemmd/lib"
cd "$work"
for program in first sizes; do
  # shellcheck disable=SC2086  # several words
  gfortran -std=f2018 -Wall -Wextra -Werror gemmd/include/gemmd/gemmd.f90 "$program.f90" -o "$program-f90" $found
done
# shellcheck disable=SC2086
cc sizes.c -o sizes-c $found
cd - >/dev/null
diff <("$work/sizes-c") <("$work/sizes-f90") || fail "gemmd.f90 has a struct of another size than gemmd.h"

step "run against a server"
"$server" --device=cpu --listen="unix:$work/socket" 2>"$work/server.log" &
trap 'kill %1; wait; rm -rf "$work"' EXIT
until grep -q '"event":"serving"' "$work/server.log"; do
  kill -0 %1 || fail "$(cat "$work/server.log")"
  sleep 0.05
done
"$work/build/first" "unix:$work/socket" >"$work/said"
diff <(block text 2) "$work/said" || fail "the program in C++ says something else than the page"
diff <(block text 3) <("$work/first-f90" "unix:$work/socket") || fail "the program in Fortran says something else than the page"

step "versions that are asked for"
takes() {
  sed "s/find_package(gemmd [0-9.]*/find_package(gemmd $1/" "$work/CMakeLists.txt" >"$work/asks/CMakeLists.txt"
  rm -rf "$work/asked"
  cmake -S "$work/asks" -B "$work/asked" -DCMAKE_PREFIX_PATH="$work/gemmd" >/dev/null 2>&1
}
mkdir "$work/asks"
cp "$work/first.cc" "$work/asks"
takes "$version" || fail "find_package(gemmd $version) is refused, and $version is there"
takes "${version%%.*}.0" || fail "find_package(gemmd ${version%%.*}.0) is refused, and $version is there"
for newer in "${version%%.*}.999" "$((${version%%.*} + 1)).0"; do
  ! takes "$newer" || fail "find_package(gemmd $newer) is taken, and $version is there"
done
echo "docs/library.md's programs were built by CMake and gfortran, and said what the page shows"
