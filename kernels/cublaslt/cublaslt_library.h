// libcublasLt, opened when it is first asked for, so that one binary starts on machines
// with and without it. Its functions are called by their ordinary header <cublasLt.h>;
// cublaslt_library.cc defines those that this folder calls, and forwards.
#pragma once

#include "kernels/cublaslt/library_file.h"

namespace gemmd::cublaslt {

// Thread-safe; the first call opens the library.
const OpenedLibrary& CublasLtLibrary();

}  // namespace gemmd::cublaslt
