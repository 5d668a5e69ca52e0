// Collects the samples of the threads that complete requests.
#pragma once

#include <array>
#include <vector>

#include "base/sync/mutex.h"
#include "client/load/sample.h"

namespace gemmd::load {

// Thread-safe. In shards, so that threads rarely meet; and emptied often, so that no
// shard grows so large that moving it would delay a request.
class SampleLog {
 public:
  void Add(std::size_t shard, const Sample& sample) {
    Shard& own = shards_[shard % kShards];
    const MutexLock lock(own.mutex);
    own.samples.push_back(sample);
  }

  // Moves what has come since the last call to the end of `samples`.
  void MoveTo(std::vector<Sample>& samples) {
    for (Shard& shard : shards_) {
      std::vector<Sample> taken;
      {
        const MutexLock lock(shard.mutex);
        taken.reserve(shard.samples.size());
        taken.swap(shard.samples);
      }
      samples.insert(samples.end(), taken.begin(), taken.end());
    }
  }

 private:
  static constexpr std::size_t kShards = 16;
  struct alignas(64) Shard {
    Mutex mutex;
    std::vector<Sample> samples ABSL_GUARDED_BY(mutex);
  };
  std::array<Shard, kShards> shards_;
};

}  // namespace gemmd::load
