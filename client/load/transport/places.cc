#include "client/load/transport/places.h"

#include <utility>

namespace gemmd::load {

Places::Places(std::size_t places) {
  for (std::size_t i = 0; i < places; ++i) free_.push_back(i);
}

void Places::Take(Use use) {
  std::size_t place = 0;
  {
    const MutexLock lock(mutex_);
    if (free_.empty()) {
      waiting_.push_back(std::move(use));
      return;
    }
    place = free_.back();
    free_.pop_back();
  }
  use(place);
}

void Places::GiveBack(std::size_t place) {
  Use next;
  {
    const MutexLock lock(mutex_);
    if (waiting_.empty()) {
      free_.push_back(place);
      return;
    }
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  next(place);
}

}  // namespace gemmd::load
