// Where kernels for Blackwell run: on this machine's GPU, or in the emulator, which rehearses it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/gemm.h"

namespace gemmd::testing {

class Place {
 public:
  virtual ~Place() = default;

  // "in the emulator"
  virtual const char* name() const = 0;
  virtual const DeviceTraits& device() const = 0;

  // The bytes as kernels of this place reach them, until Empty(). Null stays null.
  virtual void* Bring(const void* host, std::uint64_t bytes) = 0;
  virtual void Empty() = 0;

  // Says what the launch complains of. The last bytes that were brought, D's, come back to `d`.
  virtual std::string Run(const Kernel& kernel, const Problem& problem, const Arguments& arguments,
                          void* d) = 0;
};

// Ends the process where there is no GPU.
std::unique_ptr<Place> GpuPlace();
std::unique_ptr<Place> EmulatedPlace();

}  // namespace gemmd::testing
