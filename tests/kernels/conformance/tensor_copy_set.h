// Runs the copies of tensor_copy_cases.h, compiled for the device and for the emulator.
#pragma once

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ptx/launch.h"
#include "tests/kernels/conformance/target_memory.h"
#include "tests/kernels/conformance/tensor_copy_cases.h"
#include "tests/kernels/conformance/vector_sets.h"
#include "tests/kernels/ptx/tensor_copy_probe.h"

namespace gemmd::conformance {
inline namespace GEMMD_BACKEND {

// Where cases lie in the target's memory.
struct TensorCopyPlace {
  void* in;
  void* out;
  void* dump;
};

inline absl::StatusOr<ptx::TensorMap> MapOf(const RandomCopy& copy, const void* base) {
  ptx::TensorMapSpec spec;
  spec.base = base;
  spec.element = static_cast<ptx::TensorElement>(copy.element);
  spec.size[0] = copy.columns;
  spec.size[1] = copy.rows;
  spec.stride_bytes[1] = copy.pitch;
  spec.box[0] = copy.box[0];
  spec.box[1] = copy.box[1];
  spec.swizzle = static_cast<ptx::Swizzle>(copy.swizzle);
  return ptx::MakeTensorMap(spec);
}

// One case; its results into *words, kTensorCopyWords of them.
inline absl::Status RunTensorCopy(const VectorSet& set, const RandomCopy& copy,
                                  TargetMemory* memory, const TensorCopyPlace& place,
                                  std::vector<std::uint32_t>* words) {
  const absl::StatusOr<ptx::TensorMap> in = MapOf(copy, place.in);
  const absl::StatusOr<ptx::TensorMap> out = MapOf(copy, place.out);
  if (!in.ok()) return in.status();
  if (!out.ok()) return out.status();
  ptx::TensorCopyProbeParams params = {};
  params.in = *in;
  params.out = *out;
  params.dump = static_cast<std::uint32_t*>(place.dump);
  params.box_bytes = copy.box_bytes();
  params.load_x = copy.load[0];
  params.load_y = copy.load[1];
  params.store_x = copy.store[0];
  params.store_y = copy.store[1];
  params.stores = true;
  ptx::LaunchShape shape;
  shape.kernel = set.name.c_str();
  shape.shared_bytes = ptx::TensorCopyProbeSharedBytes(params.box_bytes);
  const std::uint64_t bytes = copy.in.size() * 4;
  absl::Status status = memory->Put(place.in, copy.in.data(), bytes);
  if (status.ok()) status.Update(memory->Put(place.out, copy.out.data(), bytes));
  if (status.ok()) {
    status.Update(ptx::Launch(ptx::TensorCopyProbe, shape, params,
                              {{place.in, bytes, "in"},
                               {place.out, bytes, "out", false},
                               {place.dump, params.box_bytes, "dump", false}},
                              memory->target()));
  }
  if (status.ok()) status.Update(memory->Wait());
  words->assign(kTensorCopyWords, 0);
  if (status.ok()) status.Update(memory->Get(words->data(), place.dump, params.box_bytes));
  if (status.ok()) status.Update(memory->Get(words->data() + kMostBoxBytes / 4, place.out, bytes));
  return status;
}

inline absl::Status RunTensorCopies(const VectorSet& set, const VectorParams& params,
                                    std::uint32_t blocks, TargetMemory* memory) {
  const TensorCopyPlace place = {memory->Allocate(kMostTensorBytes),
                                 memory->Allocate(kMostTensorBytes),
                                 memory->Allocate(kMostBoxBytes)};
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const RandomCopy copy = MakeRandomCopy(set.number, params.first_block + i);
    absl::Status status = RunTensorCopy(set, copy, memory, place, &words);
    const std::uint64_t hash = HashWords(words);
    if (status.ok()) status.Update(memory->Put(params.hashes + i, &hash, sizeof hash));
    if (status.ok() && params.words != nullptr) {
      status.Update(memory->Put(params.words + std::uint64_t{i} * kTensorCopyWords, words.data(),
                                words.size() * 4));
    }
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("copy ", params.first_block + i, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
