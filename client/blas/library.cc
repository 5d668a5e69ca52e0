#include "client/blas/library.h"

#include <dlfcn.h>

#include <string>

#include "client/blas/settings.h"

namespace gemmd::blas {
namespace {

constexpr char kName[] = "libgemmd.so.0";

void* OpenAt(const char* path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

// Returns the path of libgemmd.so.0 in the folder that this library is in; empty where that is not
// known.
std::string Beside() {
  Dl_info ours{};
  if (dladdr(reinterpret_cast<const void*>(&Beside), &ours) == 0) return "";
  const std::string path = ours.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1) + kName;
}

template <typename Function>
bool Set(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) Say("%s has no %s: all is computed here", kName, name);
  return function != nullptr;
}

}  // namespace

bool Open(const char* path, Library& library) {
  void* handle = nullptr;
  if (path != nullptr) {
    handle = OpenAt(path);
  } else {
    const std::string beside = Beside();
    if (!beside.empty()) handle = OpenAt(beside.c_str());
    if (handle == nullptr) handle = OpenAt(kName);
  }
  if (handle == nullptr) {
    Say("%s: all is computed here", dlerror());
    return false;
  }
#define GEMMD_BLAS_SET(name) Set(handle, "gemmd_" #name, library.name)
  return GEMMD_BLAS_SET(call_cancel) && GEMMD_BLAS_SET(call_free) && GEMMD_BLAS_SET(client_new) &&
         GEMMD_BLAS_SET(code_name) && GEMMD_BLAS_SET(error_code) && GEMMD_BLAS_SET(error_free) &&
         GEMMD_BLAS_SET(error_message) && GEMMD_BLAS_SET(error_retry_after_ms) &&
         GEMMD_BLAS_SET(estimate) && GEMMD_BLAS_SET(matmul_async) && GEMMD_BLAS_SET(result_array) &&
         GEMMD_BLAS_SET(result_free);
#undef GEMMD_BLAS_SET
}

}  // namespace gemmd::blas
