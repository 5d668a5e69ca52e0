#!/usr/bin/env bash
# Lays the C library out as programs find it: install.sh LIBRARY HEADER VERSION PREFIX. The folder
# may be moved: gemmd.pc says where things are by its own place.
set -euo pipefail
library=$1 header=$2 version=$3 prefix=$4
install -D -m 644 -t "$prefix/include/gemmd" "$header"
install -D -m 644 -s -t "$prefix/lib" "$library"
ln -sfn "$(basename "$library")" "$prefix/lib/libgemmd.so"
mkdir -p "$prefix/lib/pkgconfig"
cat >"$prefix/lib/pkgconfig/gemmd.pc" <<PC
prefix=\${pcfiledir}/../..
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: gemmd
Description: Matrix products on a gemmd server
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lgemmd
PC
