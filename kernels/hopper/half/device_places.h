// Where the clusters of a launch that fills the device will lie.
#pragma once

#include "absl/status/statusor.h"
#include "kernels/hopper/common/cluster_places.h"
#include "kernels/ptx/platform.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

struct DevicePlaces {
  std::uint32_t clusters = 0;  // in the grid that `places` holds for, and in no other
  ClusterPlaces places;
};

// Returns the places of the grid of pairs of blocks that fills the calling thread's current device.
// Each device is asked once: the first call for it launches probes and waits for them, some hundred
// microseconds; thread-safe. The emulator has a permutation of its own. INTERNAL: CUDA's message.
absl::StatusOr<DevicePlaces> PlacesOfPairs();

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
