// A fake GPU with the allocator that a GPU has: blocks of one allocation, used again and again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "server/device/cuda/backend/reserved_memory.h"
#include "tests/server/device/cuda/cuda_fixture.h"

namespace gemmd::testing {

class ReservedFakeCuda final : public FakeCuda {
 public:
  // Without poison a block has the bytes that its last owner left.
  explicit ReservedFakeCuda(std::uint32_t seed, bool poisons = true)
      : FakeCuda(seed), poisons_(poisons) {}

  absl::Status ReservePool(std::uint64_t bytes) override {
    if (absl::Status s = FakeCuda::ReservePool(bytes); !s.ok()) return s;
    const absl::StatusOr<CudaStream> stream = CreateStream(StreamPriority::kNormal);
    const absl::StatusOr<void*> all = FakeCuda::Allocate(bytes, *stream, BlockLife::kStays);
    if (!all.ok()) return all.status();
    const CudaEvent poisoned = *CreateEvent();
    if (absl::Status s = Record(poisoned, *stream); !s.ok()) return s;
    while (!*IsDone(poisoned)) {
    }
    memory_ = std::make_unique<ReservedMemory>(this, *all, bytes);
    bytes_ = bytes;
    return absl::OkStatus();
  }
  absl::StatusOr<void*> Allocate(std::uint64_t bytes, CudaStream stream, BlockLife life) override {
    absl::StatusOr<void*> block = memory_->Allocate(bytes, stream, life);
    if (!block.ok()) return block;
    // A command that still reads or writes the block, for want of a wait, is found out.
    const auto poison = [data = static_cast<char*>(*block), bytes](const LaunchTarget&) {
      std::fill_n(data, bytes, 'p');
      return absl::OkStatus();
    };
    given_bytes_ += bytes;
    if (!poisons_) return block;
    if (absl::Status s = Launch(poison, stream); !s.ok()) return s;
    return block;
  }
  absl::Status Free(void* memory, CudaStream stream) override {
    return memory_->Free(memory, stream);
  }

  // The number of times that the whole was given out.
  std::uint64_t rounds() const { return given_bytes_ / bytes_; }

 private:
  const bool poisons_;
  std::unique_ptr<ReservedMemory> memory_;
  std::uint64_t bytes_ = 1;
  std::atomic<std::uint64_t> given_bytes_{0};
};

}  // namespace gemmd::testing
