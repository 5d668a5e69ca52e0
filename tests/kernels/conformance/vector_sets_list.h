// The list of vector_sets.h, compiled for the device and for the emulator.
#pragma once

#include "absl/strings/str_cat.h"
#include "kernels/ptx/launch.h"
#include "tests/kernels/conformance/convert_vectors.h"
#include "tests/kernels/conformance/matrix_memory_vectors.h"
#include "tests/kernels/conformance/mma_f64_vectors.h"
#include "tests/kernels/conformance/mma_vectors.h"
#include "tests/kernels/conformance/tensor_copy_set.h"
#include "tests/kernels/conformance/vector_sets.h"
#include "tests/kernels/conformance/wgmma_byte_vectors.h"
#include "tests/kernels/conformance/wgmma_tf32_vectors.h"
#include "tests/kernels/conformance/wgmma_vectors.h"

namespace gemmd::conformance {

// At least 10^5 instructions of each product.
inline constexpr std::uint32_t kMmaBlocks = 800;
inline constexpr std::uint32_t kWgmmaBlocks = 6400;
inline constexpr std::uint32_t kOtherBlocks = 800;

inline namespace GEMMD_BACKEND {

template <void (*kKernel)(VectorParams), std::uint32_t kSharedBytes>
absl::Status RunVectors(const VectorSet& set, const VectorParams& params, std::uint32_t blocks,
                        TargetMemory* memory) {
  ptx::LaunchShape shape;
  shape.kernel = set.name.c_str();
  shape.blocks_x = blocks;
  shape.threads = set.threads;
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

template <Form kForm, int kColumns, bool kARegisters>
void AppendWgmma(std::vector<VectorSet>* sets) {
  const auto number = static_cast<std::uint32_t>(1000 + 2000 * static_cast<int>(kForm) +
                                                 (kARegisters ? 1000 : 0) + kColumns);
  sets->push_back(
      {absl::StrCat("wgmma_m64n", kColumns, "k16_", FormName(kForm),
                    kARegisters ? "_a_registers" : ""),
       number, kWgmmaBlocks, kWgmmaThreads, kWgmmaInstructions, WgmmaWords(kColumns),
       RunVectors<WgmmaVectors<kForm, kColumns, kARegisters>, WgmmaSharedBytes(kColumns)>});
}

template <Form kForm>
void AppendWgmmas(std::vector<VectorSet>* sets) {
  AppendWgmma<kForm, 16, false>(sets);
  AppendWgmma<kForm, 32, false>(sets);
  AppendWgmma<kForm, 48, false>(sets);
  AppendWgmma<kForm, 64, false>(sets);
  AppendWgmma<kForm, 80, false>(sets);
  AppendWgmma<kForm, 96, false>(sets);
  AppendWgmma<kForm, 112, false>(sets);
  AppendWgmma<kForm, 128, false>(sets);
  AppendWgmma<kForm, 144, false>(sets);
  AppendWgmma<kForm, 160, false>(sets);
  AppendWgmma<kForm, 176, false>(sets);
  AppendWgmma<kForm, 192, false>(sets);
  AppendWgmma<kForm, 208, false>(sets);
  AppendWgmma<kForm, 224, false>(sets);
  AppendWgmma<kForm, 240, false>(sets);
  AppendWgmma<kForm, 256, false>(sets);
  AppendWgmma<kForm, 64, true>(sets);
  AppendWgmma<kForm, 256, true>(sets);
  AppendWgmma<kForm, 8, false>(sets);
  AppendWgmma<kForm, 24, false>(sets);
  AppendWgmma<kForm, 184, false>(sets);
}

template <int kColumns>
void AppendWgmmaTf32(std::vector<VectorSet>* sets) {
  sets->push_back({absl::StrCat("wgmma_m64n", kColumns, "k8_tf32"), 7000 + kColumns, kWgmmaBlocks,
                   kWgmmaThreads, kWgmmaInstructions, WgmmaWords(kColumns),
                   RunVectors<WgmmaTf32Vectors<kColumns>, WgmmaSharedBytes(kColumns)>});
}

inline const char* TypeName(ptx::ByteType type) {
  constexpr const char* kNames[] = {"e4m3", "e5m2", "s8", "u8"};
  return kNames[static_cast<int>(type)];
}

template <ptx::ByteType kA, ptx::ByteType kB, int kColumns>
void AppendWgmmaBytes(std::vector<VectorSet>* sets) {
  const auto pair = static_cast<std::uint32_t>(4 * static_cast<int>(kA) + static_cast<int>(kB));
  sets->push_back({absl::StrCat("wgmma_m64n", kColumns, "k32_", TypeName(kA), "_", TypeName(kB)),
                   8000 + 300 * pair + kColumns, kWgmmaBlocks, kWgmmaThreads, kWgmmaInstructions,
                   WgmmaWords(kColumns),
                   RunVectors<WgmmaByteVectors<kA, kB, kColumns>, WgmmaSharedBytes(kColumns)>});
}

// The widths that kernels have, and the least.
template <ptx::ByteType kA, ptx::ByteType kB>
void AppendWgmmaByteWidths(std::vector<VectorSet>* sets) {
  AppendWgmmaBytes<kA, kB, 8>(sets);
  AppendWgmmaBytes<kA, kB, 64>(sets);
  AppendWgmmaBytes<kA, kB, 128>(sets);
  AppendWgmmaBytes<kA, kB, 256>(sets);
}

inline void AppendAllWgmmaBytes(std::vector<VectorSet>* sets) {
  constexpr ptx::ByteType kE4m3 = ptx::ByteType::kE4m3;
  constexpr ptx::ByteType kE5m2 = ptx::ByteType::kE5m2;
  constexpr ptx::ByteType kS8 = ptx::ByteType::kS8;
  constexpr ptx::ByteType kU8 = ptx::ByteType::kU8;
  AppendWgmmaByteWidths<kE4m3, kE4m3>(sets);
  AppendWgmmaByteWidths<kE4m3, kE5m2>(sets);
  AppendWgmmaByteWidths<kE5m2, kE4m3>(sets);
  AppendWgmmaByteWidths<kE5m2, kE5m2>(sets);
  AppendWgmmaByteWidths<kS8, kS8>(sets);
  AppendWgmmaBytes<kS8, kU8, 64>(sets);
  AppendWgmmaBytes<kU8, kS8, 64>(sets);
  AppendWgmmaBytes<kU8, kU8, 64>(sets);
}

inline std::vector<VectorSet> MakeVectorSets() {
  std::vector<VectorSet> sets;
  AppendMma<Form::kF16ToF32>(&sets);
  AppendMma<Form::kBf16ToF32>(&sets);
  AppendMma<Form::kF16ToF16>(&sets);
  AppendF64Rows16<4>(&sets);
  AppendF64Rows16<8>(&sets);
  AppendF64Rows16<16>(&sets);
  sets.push_back({"ldmatrix_stmatrix", 10, kOtherBlocks, 32, kMatrixInstructions, kMatrixWords,
                  RunVectors<MatrixMemoryVectors, kMatrixSharedBytes>});
  sets.push_back({"cvt_f16x2_bf16x2", 11, kOtherBlocks, 32, kConvertInstructions, kConvertWords,
                  RunVectors<ConvertVectors, 0>});
  AppendWgmmas<Form::kF16ToF32>(&sets);
  AppendWgmmas<Form::kBf16ToF32>(&sets);
  AppendWgmmaTf32<8>(&sets);
  AppendWgmmaTf32<64>(&sets);
  AppendWgmmaTf32<128>(&sets);
  AppendWgmmaTf32<192>(&sets);
  AppendWgmmaTf32<256>(&sets);
  AppendAllWgmmaBytes(&sets);
  // Last, because an illegal one would end all that follows.
  sets.push_back({"tma_load_store", 20, 1024, 1, 1, kTensorCopyWords, RunTensorCopies});
  return sets;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
