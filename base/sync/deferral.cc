#include "base/sync/deferral.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gemmd {
namespace {

struct PutOffDeed {
  const void* key;
  Deferral::Deed deed;
};

thread_local int depth = 0;
thread_local std::vector<PutOffDeed> deeds;

}  // namespace

Deferral::Deferral() { ++depth; }

Deferral::~Deferral() {
  if (--depth > 0) return;
  // A deed may put off others, within a Deferral of its own.
  std::vector<PutOffDeed> due;
  due.swap(deeds);
  for (PutOffDeed& each : due) std::move(each.deed)();
}

bool Deferral::PutOff(const void* key, Deed deed) {
  if (depth == 0) return false;
  const bool is_new = std::none_of(deeds.begin(), deeds.end(),
                                   [key](const PutOffDeed& each) { return each.key == key; });
  if (is_new) deeds.push_back({key, std::move(deed)});
  return true;
}

}  // namespace gemmd
