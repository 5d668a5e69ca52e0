// Memory that launches reach: this process's for the emulator, a GPU's for CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd::conformance {

class TargetMemory {
 public:
  virtual ~TargetMemory() = default;

  // Names the machine that runs the vectors, in one line, for the head of a recording.
  virtual std::string machine() const = 0;
  // Valid until the next call; launches of it are complete when Wait() returns OK.
  virtual LaunchTarget target() = 0;
  virtual absl::Status Wait() = 0;

  // Aligned to 256 bytes; lives as long as this object. The process ends where there is none.
  virtual void* Allocate(std::uint64_t bytes) = 0;
  virtual absl::Status Put(void* to, const void* from, std::uint64_t bytes) = 0;
  virtual absl::Status Get(void* to, const void* from, std::uint64_t bytes) = 0;
};

std::unique_ptr<TargetMemory> EmulatedMemory();
// Ends the process where there is no GPU.
std::unique_ptr<TargetMemory> CudaMemory();

}  // namespace gemmd::conformance
