#include <utility>

#include "kernels/hopper/half/device_places.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// The emulator's device has two pairs: they change places.
absl::StatusOr<DevicePlaces> PlacesOfPairs() {
  ClusterPlaces places = PlainPlaces();
  std::swap(places.number[0], places.number[1]);
  return DevicePlaces{2, places};
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
