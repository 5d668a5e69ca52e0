// A map of bounded size. When it is full it forgets the entry that was inserted or found longest
// ago.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/sync/mutex.h"

namespace gemmd::cublaslt {

// Thread-safe. Values are copied out: hold large ones by shared_ptr. Keys have == and
// AbslHashValue.
template <typename Key, typename Value>
class BoundedCache {
 public:
  // REQUIRES: capacity > 0.
  explicit BoundedCache(std::size_t capacity) : capacity_(capacity) {}

  // Nothing where the key is not here.
  std::optional<Value> Find(const Key& key) {
    const MutexLock lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) return std::nullopt;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }

  // Inserts the value and returns it; where the key is here already, keeps its value and returns
  // that.
  Value Insert(const Key& key, Value value) {
    const MutexLock lock(mutex_);
    const auto found = index_.find(key);
    if (found != index_.end()) return found->second->second;
    if (order_.size() == capacity_) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    order_.emplace_front(key, std::move(value));
    index_.emplace(key, order_.begin());
    return order_.front().second;
  }

  std::size_t size() const {
    const MutexLock lock(mutex_);
    return order_.size();
  }

 private:
  using Order = std::list<std::pair<Key, Value>>;

  const std::size_t capacity_;
  mutable Mutex mutex_;
  Order order_ ABSL_GUARDED_BY(mutex_);  // the last one asked for first
  absl::flat_hash_map<Key, typename Order::iterator> index_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::cublaslt
