#include "server/device/launch.h"

namespace gemmd {

Residency ResidentPlanes::which() const {
  Residency residency;
  for (const WorkPlane plane : kWorkPlanes) residency[plane] = (*this)[plane] != nullptr;
  residency.d = d != nullptr;
  return residency;
}

}  // namespace gemmd
