// Sets that every card from sm_90 on has, compiled for the device and for the emulator.
#pragma once

#include "absl/strings/str_cat.h"
#include "kernels/ptx/launch.h"
#include "tests/kernels/conformance/convert_vectors.h"
#include "tests/kernels/conformance/matrix_memory_vectors.h"
#include "tests/kernels/conformance/mma_f64_vectors.h"
#include "tests/kernels/conformance/mma_vectors.h"
#include "tests/kernels/conformance/tensor_copy_set.h"
#include "tests/kernels/conformance/vector_sets.h"

namespace gemmd::conformance {

// At least 10^5 instructions of each product.
inline constexpr std::uint32_t kMmaBlocks = 800;
inline constexpr std::uint32_t kOtherBlocks = 800;

inline namespace GEMMD_BACKEND {

// A block of the set is a cluster of kCluster blocks, which have its threads in equal parts.
template <void (*kKernel)(VectorParams), std::uint32_t kSharedBytes, std::uint32_t kCluster = 1>
absl::Status RunVectors(const VectorSet& set, const VectorParams& params, std::uint32_t blocks,
                        TargetMemory* memory) {
  ptx::LaunchShape shape;
  shape.kernel = set.name.c_str();
  shape.blocks_x = blocks * kCluster;
  shape.threads = set.threads / kCluster;
  shape.cluster_size = kCluster;
  shape.shared_bytes = kSharedBytes;
  std::vector<ptx::DeviceBuffer> buffers = {
      {params.hashes, std::uint64_t{blocks} * set.threads * 8, "hashes", false}};
  if (params.words != nullptr) {
    buffers.push_back({params.words, blocks * set.words_per_block() * 4, "words", false});
  }
  return ptx::Launch(kKernel, shape, params, buffers, memory->target());
}

inline const char* FormName(Form form) {
  return form == Form::kF16ToF32 ? "f16_f32" : form == Form::kBf16ToF32 ? "bf16_f32" : "f16_f16";
}

template <Form kForm>
void AppendMma(std::vector<VectorSet>* sets) {
  sets->push_back({absl::StrCat("mma_m16n8k16_", FormName(kForm)),
                   1 + static_cast<std::uint32_t>(kForm), kMmaBlocks, 32, kMmaInstructions,
                   kForm == Form::kF16ToF16 ? 2u : 4u, RunVectors<MmaVectors<kForm>, 0>});
}

template <int kK>
void AppendF64Rows16(std::vector<VectorSet>* sets) {
  sets->push_back({absl::StrCat("mma_m16n8k", kK, "_f64"), 30 + kK, kMmaBlocks, 32,
                   kMmaInstructions, 8, RunVectors<MmaF64Rows16Vectors<kK>, 0>});
}

inline void AppendCommonSets(std::vector<VectorSet>* sets) {
  AppendMma<Form::kF16ToF32>(sets);
  AppendMma<Form::kBf16ToF32>(sets);
  AppendMma<Form::kF16ToF16>(sets);
  AppendF64Rows16<4>(sets);
  AppendF64Rows16<8>(sets);
  AppendF64Rows16<16>(sets);
  sets->push_back({"ldmatrix_stmatrix", 10, kOtherBlocks, 32, kMatrixInstructions, kMatrixWords,
                   RunVectors<MatrixMemoryVectors, kMatrixSharedBytes>});
  sets->push_back({"cvt_f16x2_bf16x2", 11, kOtherBlocks, 32, kConvertInstructions, kConvertWords,
                   RunVectors<ConvertVectors, 0>});
}

// Last, because an illegal one would end all that follows.
inline void AppendTensorCopies(std::vector<VectorSet>* sets) {
  sets->push_back({"tma_load_store", 20, 1024, 1, 1, kTensorCopyWords, RunTensorCopies});
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
