#include <utility>

#include "kernels/sm90/device_places.h"

namespace gemmd::sm90 {
inline namespace GEMMD_BACKEND {

// The emulator's device has two pairs: they change places.
absl::StatusOr<DevicePlaces> PlacesOfPairs() {
  ClusterPlaces places = PlainPlaces();
  std::swap(places.number[0], places.number[1]);
  return DevicePlaces{2, places};
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm90
