// Totals of requests by tenant and model, as ModelStatistics tells them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "inference/grpc_service.pb.h"
#include "server/observe/receipt.h"

namespace gemmd {

// Thread-safe. Bounded: where a tenant has as many rows as it may, or all tenants together, a new
// one takes the place of the row that was longest without a request, whose counts are lost.
class ModelTotals {
 public:
  struct Bounds {
    std::size_t rows = 4096;
    std::size_t tenant_rows = 256;
  };
  struct Duration {
    std::uint64_t count = 0;
    std::uint64_t ns = 0;
  };
  // A request that was served OK counts once in each of these stages, so that their counts are
  // equal.
  struct Row {
    std::uint64_t last_inference_ms = 0;  // since 1970
    std::uint64_t launches = 0;
    Duration success;  // from the header to the receipt
    Duration fail;
    std::uint64_t queue_ns = 0;   // admission and queue
    std::uint64_t input_ns = 0;   // decode, receive and copy in
    std::uint64_t infer_ns = 0;   // compute and verify
    std::uint64_t output_ns = 0;  // copy out and encode
  };

  ModelTotals() : ModelTotals(Bounds()) {}
  explicit ModelTotals(const Bounds& bounds) : bounds_(bounds) {}

  // `tenant` is Tenant::key(). REQUIRES: the tenant has that model, or a client could fill the
  // table with names.
  void RecordSuccess(const std::string& tenant, const std::string& model, const Receipt& receipt,
                     std::uint64_t unix_ms);
  void RecordFailure(const std::string& tenant, const std::string& model, TimeNs duration);

  // Zeros: nothing was recorded.
  Row Read(const std::string& tenant, const std::string& model) const;
  std::map<std::string, Row> ReadAll(const std::string& tenant) const;

 private:
  using Key = std::pair<std::string, std::string>;
  // Requests of one launch end close to each other, those of a few launches mixed.
  static constexpr std::size_t kRecentLaunches = 8;
  struct Entry {
    Row row;
    std::array<std::uint64_t, kRecentLaunches> launches{};
    std::list<Key>::iterator use;
  };

  Row& RowOf(const std::string& tenant, const std::string& model, std::uint64_t launch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EvictLocked(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoomLocked(const std::string& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Bounds bounds_;
  mutable AdaptiveMutex mutex_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::size_t> tenants_ ABSL_GUARDED_BY(mutex_);  // rows of each; none is 0
  std::list<Key> uses_ ABSL_GUARDED_BY(mutex_);                         // the last used last
};

inference::ModelStatistics EncodeStatistics(const std::string& model, const ModelTotals::Row& row);

}  // namespace gemmd
