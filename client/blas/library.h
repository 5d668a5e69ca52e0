// libgemmd.so.0, opened for this library alone: the program's own gRPC and protobuf, if it has
// them, are not touched.
#pragma once

#include "client/include/gemmd/gemmd.h"

namespace gemmd::blas {

struct Library {
#define GEMMD_BLAS_FUNCTION(name) decltype(&gemmd_##name) name = nullptr
  GEMMD_BLAS_FUNCTION(call_cancel);
  GEMMD_BLAS_FUNCTION(call_free);
  GEMMD_BLAS_FUNCTION(client_new);
  GEMMD_BLAS_FUNCTION(code_name);
  GEMMD_BLAS_FUNCTION(error_code);
  GEMMD_BLAS_FUNCTION(error_free);
  GEMMD_BLAS_FUNCTION(error_message);
  GEMMD_BLAS_FUNCTION(error_retry_after_ms);
  GEMMD_BLAS_FUNCTION(estimate);
  GEMMD_BLAS_FUNCTION(matmul_async);
  GEMMD_BLAS_FUNCTION(result_array);
  GEMMD_BLAS_FUNCTION(result_free);
#undef GEMMD_BLAS_FUNCTION
};

// Opens the library at `path`; null: the one beside this library, else the loader's. Returns false
// and says why where there is none.
bool Open(const char* path, Library& library);

}  // namespace gemmd::blas
