#!/usr/bin/env bash
# Lays the C library out as programs find it: install.sh LIBRARY HEADERS VERSION PREFIX, where HEADERS
# is their folder. The folder may be moved: gemmd.pc and gemmdConfig.cmake say where things are by
# their own place.
set -euo pipefail
library=$1 headers=$2 version=$3 prefix=$4
install -D -m 644 -t "$prefix/include/gemmd" "$headers/gemmd.h" "$headers/gemmd.hpp" \
  "$headers/gemmd.f90"
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

# CMake's find_package(gemmd), with the target gemmd::gemmd. As with the symbol version, 0.x takes
# what any 0.y was asked for, from y on.
mkdir -p "$prefix/lib/cmake/gemmd"
cat >"$prefix/lib/cmake/gemmd/gemmdConfig.cmake" <<'CMAKE'
get_filename_component(_gemmd_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET gemmd::gemmd)
  add_library(gemmd::gemmd SHARED IMPORTED)
  set_target_properties(gemmd::gemmd PROPERTIES
    IMPORTED_LOCATION "${_gemmd_prefix}/lib/libgemmd.so.0"
    IMPORTED_SONAME "libgemmd.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_gemmd_prefix}/include")
endif()
unset(_gemmd_prefix)
CMAKE
cat >"$prefix/lib/cmake/gemmd/gemmdConfigVersion.cmake" <<CMAKE
set(PACKAGE_VERSION "$version")
CMAKE
cat >>"$prefix/lib/cmake/gemmd/gemmdConfigVersion.cmake" <<'CMAKE'
string(REGEX MATCH "^[0-9]+" _gemmd_major "${PACKAGE_VERSION}")
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION
   OR NOT "${PACKAGE_FIND_VERSION_MAJOR}" MATCHES "^(${_gemmd_major})?$")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
unset(_gemmd_major)
CMAKE
