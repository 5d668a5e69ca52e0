// A product over several servers on its way: what split_matmul.cc is made of, private to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/mutex.h"
#include "client/bytes.h"
#include "client/client.h"
#include "client/matmul.h"
#include "client/matrix.h"
#include "client/options.h"
#include "client/pending_matmul.h"
#include "client/split/cut_rows.h"
#include "client/split/split_matmul.h"
#include "client/split/split_run.h"
#include "client/wire/codec.h"

namespace gemmd::client {

// The thread that asked for the product waits in Run(), which alone begins and cancels attempts;
// their answers come on gRPC's threads.
class Splitting : public std::enable_shared_from_this<Splitting> {
 public:
  // `knows_columns`: those of D; else a server alone says how large D is.
  Splitting(Client& client, const CallOptions& call, const HedgePolicy& policy,
            const std::vector<RowRange>& rows, const std::vector<std::string>& servers,
            bool knows_columns);

  absl::StatusOr<SplitProduct> Run(const std::vector<std::shared_ptr<const EncodedMatmul>>& parts);

 private:
  // A part's rows of D have one as long as somebody may write there.
  class Writer {
   public:
    explicit Writer(std::shared_ptr<Splitting> owner) : owner_(std::move(owner)) {}
    ~Writer() {
      const MutexLock lock(owner_->mutex_);
      owner_->changed_.notify_all();
    }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

   private:
    const std::shared_ptr<Splitting> owner_;
  };

  using Clock = std::chrono::steady_clock;

  absl::Duration Now() const { return absl::FromChrono(Clock::now() - begun_); }
  void Begin(const SplitRun::Begin& begin, const EncodedMatmul& part);
  void Do(const std::vector<std::shared_ptr<const EncodedMatmul>>& parts,
          const SplitRun::Actions& actions);
  absl::StatusOr<std::optional<Buffer>> MemoryFor(int attempt, std::size_t part,
                                                  const MatrixFormat& format);
  void OnEnd(int attempt, std::size_t part, absl::StatusOr<Product> product);
  // Returns what is to be done next; nothing: all has ended, and nobody writes any more.
  std::optional<SplitRun::Actions> Next();
  bool IsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t OffsetOf(std::size_t part) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<SplitProduct> Conclude();

  Client& client_;
  const bool knows_columns_;
  const CallOptions call_;
  const absl::Time deadline_;
  const std::vector<RowRange> rows_;
  const Clock::time_point begun_ = Clock::now();

  Mutex mutex_;
  CondVar changed_;
  std::optional<MatrixFormat> format_ ABSL_GUARDED_BY(mutex_);  // of D, once a server has said it
  std::optional<Buffer> d_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Writer>> writers_ ABSL_GUARDED_BY(mutex_);    // by part
  std::vector<std::optional<Product>> products_ ABSL_GUARDED_BY(mutex_);  // by part, those taken
  std::vector<std::shared_ptr<PendingMatmul>> pending_ ABSL_GUARDED_BY(mutex_);  // by attempt
  SplitRun run_ ABSL_GUARDED_BY(mutex_);
  SplitRun::Actions due_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::client
