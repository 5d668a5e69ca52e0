// Where a thread of a kernel of vectors leaves its results.
#pragma once

#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "tests/kernels/conformance/random_bits.h"
#include "tests/kernels/conformance/vector_params.h"

namespace gemmd::conformance {
inline namespace GEMMD_BACKEND {

class VectorSink {
 public:
  // `words` results a thread and instruction.
  GEMMD_DEVICE VectorSink(const VectorParams& params, std::uint32_t threads,
                          std::uint32_t instructions, std::uint32_t words)
      : VectorSink(params, threads, instructions, words, ptx::BlockIndexX(), ptx::ThreadIndex()) {}
  // For sets whose block is a cluster: `block` is its number in the grid, `thread` one of all.
  GEMMD_DEVICE VectorSink(const VectorParams& params, std::uint32_t threads,
                          std::uint32_t instructions, std::uint32_t words, std::uint32_t block,
                          std::uint32_t thread)
      : params_(params),
        threads_(threads),
        words_(words),
        block_(block),
        thread_(thread),
        start_(std::uint64_t{block} * instructions * threads * words) {}

  // Result i of an instruction.
  GEMMD_DEVICE void Add(std::uint32_t instruction, std::uint32_t i, std::uint32_t word) {
    const std::uint64_t position = (std::uint64_t{instruction} * threads_ + thread_) * words_ + i;
    hash_ += HashTerm(position, word);
    if (params_.words != nullptr) ptx::StoreGlobal(params_.words + start_ + position, word);
  }

  GEMMD_DEVICE void Finish() {
    ptx::StoreGlobal(params_.hashes + block_ * threads_ + thread_, hash_);
  }

 private:
  const VectorParams& params_;
  const std::uint32_t threads_;
  const std::uint32_t words_;
  const std::uint32_t block_;
  const std::uint32_t thread_;
  const std::uint64_t start_;
  std::uint64_t hash_ = 0;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
