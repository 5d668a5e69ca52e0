#include "kernels/cublaslt/cublaslt_library.h"

#include <cublasLt.h>
#include <dlfcn.h>

namespace gemmd::cublaslt {
namespace {

template <typename F>
F* Find(const char* name) {
  void* const handle = CublasLtLibrary().handle;
  return handle == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(handle, name));
}

}  // namespace

const OpenedLibrary& CublasLtLibrary() {
  static const OpenedLibrary* const library =
      new OpenedLibrary(OpenLibrary("libcublasLt.so.13", CudaLibraryFolders()));
  return *library;
}

}  // namespace gemmd::cublaslt

// The library's function `name`, or `absent` where there is no library.
#define GEMMD_FORWARD(absent, type, name, parameters, arguments)                          \
  extern "C" type CUBLASWINAPI name parameters {                                          \
    static auto* const real = gemmd::cublaslt::Find<type CUBLASWINAPI parameters>(#name); \
    return real == nullptr ? (absent) : real arguments;                                   \
  }
#define GEMMD_FORWARD_STATUS(name, parameters, arguments) \
  GEMMD_FORWARD(CUBLAS_STATUS_NOT_INITIALIZED, cublasStatus_t, name, parameters, arguments)

GEMMD_FORWARD(0, size_t, cublasLtGetVersion, (), ())
GEMMD_FORWARD("", const char*, cublasLtGetStatusName, (cublasStatus_t status), (status))
GEMMD_FORWARD_STATUS(cublasLtCreate, (cublasLtHandle_t * handle), (handle))
GEMMD_FORWARD_STATUS(cublasLtMatmulDescInit_internal,
                     (cublasLtMatmulDesc_t description, size_t size, cublasComputeType_t compute,
                      cudaDataType_t scale),
                     (description, size, compute, scale))
GEMMD_FORWARD_STATUS(cublasLtMatmulDescSetAttribute,
                     (cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
                      const void* value, size_t size),
                     (description, attribute, value, size))
GEMMD_FORWARD_STATUS(cublasLtMatrixLayoutInit_internal,
                     (cublasLtMatrixLayout_t layout, size_t size, cudaDataType type, uint64_t rows,
                      uint64_t columns, int64_t leading_dimension),
                     (layout, size, type, rows, columns, leading_dimension))
GEMMD_FORWARD_STATUS(cublasLtMatmulPreferenceInit_internal,
                     (cublasLtMatmulPreference_t preference, size_t size), (preference, size))
GEMMD_FORWARD_STATUS(cublasLtMatmulPreferenceSetAttribute,
                     (cublasLtMatmulPreference_t preference,
                      cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                      size_t size),
                     (preference, attribute, value, size))
GEMMD_FORWARD_STATUS(cublasLtMatmulAlgoGetHeuristic,
                     (cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                      cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int asked,
                      cublasLtMatmulHeuristicResult_t results[], int* found),
                     (handle, description, a, b, c, d, preference, asked, results, found))
GEMMD_FORWARD_STATUS(cublasLtMatmul,
                     (cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                      const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                      cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                      cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                      size_t workspace_bytes, cudaStream_t stream),
                     (handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d,
                      d_layout, algorithm, workspace, workspace_bytes, stream))
