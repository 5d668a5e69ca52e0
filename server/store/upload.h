// An operand whose bytes are still coming, perhaps over several streams at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ranges/range_set.h"
#include "base/sync/mutex.h"
#include "kernels/gemm.h"
#include "server/device/chunk_limit.h"
#include "server/device/plane_receiver.h"
#include "server/store/conversion.h"
#include "server/store/early_landing.h"
#include "server/store/operand_form.h"
#include "server/store/stored_operand.h"

namespace gemmd {

struct UploadChunk {
  PlaneName plane = PlaneName::kData;
  std::uint64_t offset = 0;
  absl::Span<const absl::string_view> pieces;  // one after another, in somebody else's memory
};

struct MissingRange {
  PlaneName plane = PlaneName::kData;
  ByteRange bytes;
};

// Thread-safe. Each byte is copied and hashed once, by the thread that brings it and those that
// help it: a 1 MiB piece of a plane is hashed by whoever brings its last byte.
class Upload {
 public:
  // By plane: memory of its bytes, in one piece; empty where the form has no such plane.
  using Memory = OperandPlanes<HostBuffer>;

  // The form to keep instead of the bytes that come, and memory for it.
  struct Kept {
    StoredAs as;
    Memory memory;
  };

  // `kept` absent: what comes is kept. `hold`: of both, whose pieces keep it. `helpers`, which
  // outlive all calls of Receive(), share the pieces of a chunk with its caller. `early`: of the
  // data, which are kept; null: they do not land before the end.
  Upload(const OperandForm& form, const Sha256Digest& digest, Memory memory,
         std::shared_ptr<StoreHold> hold, ParallelExecutor* helpers,
         std::optional<Kept> kept = std::nullopt, std::shared_ptr<EarlyLanding> early = nullptr);

  const OperandForm& form() const { return form_; }
  const Sha256Digest& digest() const { return digest_; }
  // Returns whether Finish() quantizes, which takes long.
  bool is_converted() const { return kept_.has_value(); }
  // Null: there is none, or no more.
  std::shared_ptr<EarlyLanding> early_landing() const;

  struct Received {
    std::uint64_t new_bytes = 0;
    std::uint64_t repeated_bytes = 0;  // that had come before, and were dropped
    bool is_last = false;              // every byte is here: true once
  };
  // INVALID_ARGUMENT: there is no such plane, or the chunk lies beyond it, or there are too many
  // chunks for their bytes.
  // RESOURCE_EXHAUSTED: see Abandon().
  absl::StatusOr<Received> Receive(const UploadChunk& chunk);

  struct Finished {
    std::shared_ptr<StoredOperand> operand;
    Sha256Digest digest{};  // of what is kept
  };
  // The caller that got is_last = true calls both, once each. Finish() gives the operand, or
  // INVALID_ARGUMENT where the bytes do not have the digest, or a scale is negative, infinite
  // or no number, or a zero point is out of range, or what is to be quantized is not finite;
  // RESOURCE_EXHAUSTED after Abandon(). `traffic`: the operand's. SetEnded(): all are told of the
  // outcome, and of the number under which the store has the operand.
  absl::StatusOr<Finished> Finish(std::shared_ptr<StoreTraffic> traffic);
  void SetEnded(const absl::Status& outcome, std::uint64_t resident_id);

  // Returns whether every byte is here, and SetEnded() is to come: until then Abandon() gives
  // nothing back.
  bool is_finishing() const;
  // Has `done` called with the outcome at SetEnded(), by whoever calls that. False: every byte is
  // not here yet, or SetEnded() was called before.
  bool AwaitEnd(std::function<void(const absl::Status&)> done);
  // The outcome and the number that SetEnded() was told; nothing, and 0, before it.
  std::optional<absl::Status> outcome() const;
  std::uint64_t resident_id() const;

  // Gives its memory back as soon as no Receive() uses it; later ones are refused.
  void Abandon();

  // The ranges that are missing, in order of planes and bytes. Where a plane has very many gaps its
  // last range reaches over bytes that came, so that the answer stays small; sending them again
  // does no harm.
  static constexpr std::size_t kMostMissingRanges = 64;  // of a plane
  std::vector<MissingRange> Missing() const;
  std::uint64_t received_bytes() const;
  // Waits for what other threads are copying or finishing: moments.
  void WaitUntilStill() const;

 private:
  struct Plane {
    std::uint64_t size_bytes = 0;
    HostBuffer memory;
    std::unique_ptr<PlaneReceiver> receiver;
    RangeSet claimed;
    std::vector<std::uint64_t> chunk_bytes;  // that are missing of each piece to hash
    std::vector<Sha256Digest> chunks;
  };

  // Takes the chunk's bytes for `part`, and hashes the pieces that they complete.
  void Take(Plane* plane, const UploadChunk& chunk, ByteRange part);
  // Takes the chunk's bytes for a part that lies within one piece to hash.
  void TakeWithinPiece(Plane* plane, const UploadChunk& chunk, ByteRange part);
  absl::Status CheckScales() const;
  absl::StatusOr<Sha256Digest> MakeKept();
  void ReleaseLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OperandForm form_;
  const Sha256Digest digest_;
  ParallelExecutor* const helpers_;
  std::optional<Kept> kept_;  // its memory: guarded by mutex_
  // Changed with mutex_ held, by Finish() and once no Receive() is under way.
  std::shared_ptr<EarlyLanding> early_;

  ChunkLimit chunks_{"the upload"};
  mutable Mutex mutex_;
  mutable CondVar still_;
  OperandPlanes<Plane> planes_;  // claimed, chunk_bytes: guarded by mutex_
  std::shared_ptr<StoreHold> hold_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t claimed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t finished_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // copied, and hashed where due
  int receiving_ ABSL_GUARDED_BY(mutex_) = 0;                 // Receive() calls under way
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;            // from is_last to SetEnded()
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t resident_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::function<void(const absl::Status&)>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
