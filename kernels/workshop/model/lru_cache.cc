#include "kernels/workshop/model/lru_cache.h"

namespace gemmd::model {

LruCache::LruCache(double bytes) : capacity_(bytes), entries_(1) {}

void LruCache::Unlink(std::size_t at) {
  entries_[entries_[at].newer].older = entries_[at].older;
  entries_[entries_[at].older].newer = entries_[at].newer;
}

void LruCache::Use(std::size_t block, double bytes) {
  const std::size_t at = block + 1;
  if (at >= entries_.size()) entries_.resize(at + at / 2 + 1);
  if (entries_[at].bytes > 0) {
    Unlink(at);
  } else {
    entries_[at].bytes = bytes;
    used_ += bytes;
  }
  entries_[at].newer = 0;
  entries_[at].older = entries_[0].older;
  entries_[entries_[0].older].newer = at;
  entries_[0].older = at;
  while (used_ > capacity_) {
    const std::size_t oldest = entries_[0].newer;
    Unlink(oldest);
    used_ -= entries_[oldest].bytes;
    entries_[oldest].bytes = 0;
  }
}

}  // namespace gemmd::model
