#include "server/cost/ratio_table.h"

namespace gemmd {

RatioTable::RatioTable(std::size_t capacity) : sets_(SetsFor(capacity)) {
  for (std::size_t i = 0; i < kLocks; ++i) {
    Part& part = parts_[i];
    const MutexLock lock(part.mutex);
    part.sets.resize((sets_ + kLocks - 1 - i) / kLocks);
  }
}

std::size_t RatioTable::SetsFor(std::size_t capacity) {
  std::size_t sets = 1;
  while (sets * kWays < capacity) sets *= 2;
  return sets;
}

RatioTable::Entry* RatioTable::FindIn(Set* set, std::uint64_t key) {
  for (Entry& entry : set->entries) {
    if (entry.key != key || entry.used == 0) continue;
    entry.used = ++set->uses;
    return &entry;
  }
  return nullptr;
}

std::optional<RatioRange> RatioTable::Find(std::uint64_t key) const {
  const std::size_t index = IndexOf(key);
  Part& part = parts_[index % kLocks];
  const MutexLock lock(part.mutex);
  const Entry* const entry = FindIn(&part.sets[index / kLocks], key);
  if (entry == nullptr) return std::nullopt;
  return entry->estimate.range();
}

void RatioTable::ObserveRefusal(std::uint64_t key) {
  const std::size_t index = IndexOf(key);
  Part& part = parts_[index % kLocks];
  const MutexLock lock(part.mutex);
  if (Entry* const entry = FindIn(&part.sets[index / kLocks], key); entry != nullptr) {
    entry->estimate.ObserveRefusal();
  }
}

void RatioTable::Observe(std::uint64_t key, double ratio) {
  const std::size_t index = IndexOf(key);
  Part& part = parts_[index % kLocks];
  const MutexLock lock(part.mutex);
  Set& set = part.sets[index / kLocks];
  Entry* place = &set.entries.front();
  for (Entry& entry : set.entries) {
    if (entry.key == key && entry.used != 0) {
      place = &entry;
      break;
    }
    if (entry.used < place->used) place = &entry;
  }
  if (place->key != key || place->used == 0) *place = {key, 0, {}};
  place->estimate.Observe(ratio);
  place->used = ++set.uses;
}

}  // namespace gemmd
