// libgemmd.so.0, opened for this library alone: the program's own gRPC and protobuf, if it has
// them, are not touched.
#pragma once

#include "client/include/gemmd/gemmd.h"

namespace gemmd::blas {

struct Library {
  decltype(&gemmd_call_cancel) call_cancel = nullptr;
  decltype(&gemmd_call_free) call_free = nullptr;
  decltype(&gemmd_client_new) client_new = nullptr;
  decltype(&gemmd_code_name) code_name = nullptr;
  decltype(&gemmd_error_code) error_code = nullptr;
  decltype(&gemmd_error_free) error_free = nullptr;
  decltype(&gemmd_error_message) error_message = nullptr;
  decltype(&gemmd_error_retry_after_ms) error_retry_after_ms = nullptr;
  decltype(&gemmd_estimate) estimate = nullptr;
  decltype(&gemmd_matmul_async) matmul_async = nullptr;
  decltype(&gemmd_result_array) result_array = nullptr;
  decltype(&gemmd_result_free) result_free = nullptr;
};

// Opens the library at `path`; null: the one beside this library, else the loader's. Returns false
// and says why where there is none.
bool Open(const char* path, Library& library);

}  // namespace gemmd::blas
