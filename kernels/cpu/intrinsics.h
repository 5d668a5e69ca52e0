// The intrinsics of x86-64, without what GCC 12 says of them: it takes registers that they leave
// undefined for a mistake (its bug 105593), wherever they are inlined.
#pragma once

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>
