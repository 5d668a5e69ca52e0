#include "server/store/upload.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/scale_values.h"

namespace gemmd {
namespace {

// `bytes` of what lies in the pieces from `offset` on.
std::vector<absl::string_view> Cut(absl::Span<const absl::string_view> pieces, std::uint64_t offset,
                                   std::uint64_t bytes) {
  std::vector<absl::string_view> cut;
  for (absl::string_view piece : pieces) {
    if (bytes == 0) break;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    piece.remove_prefix(offset);
    offset = 0;
    piece = piece.substr(0, bytes);
    bytes -= piece.size();
    cut.push_back(piece);
  }
  return cut;
}

absl::Status Dropped() {
  return absl::ResourceExhaustedError(
      "the upload was dropped: its lease had run out and its memory was needed, or it was "
      "released, or its bytes did not have the digest");
}

}  // namespace

Upload::Upload(const OperandForm& form, const Sha256Digest& digest, Memory memory,
               std::shared_ptr<StoreHold> hold, ParallelExecutor* helpers, std::optional<Kept> kept,
               std::shared_ptr<EarlyLanding> early)
    : form_(form),
      digest_(digest),
      helpers_(helpers),
      kept_(std::move(kept)),
      early_(std::move(early)),
      hold_(std::move(hold)) {
  for (const PlaneName each : kPlaneNames) {
    const MatrixLayout* const layout = form_.plane(each);
    if (layout == nullptr) continue;
    Plane& plane = planes_[each];
    plane.size_bytes = layout->size_bytes();
    plane.memory = memory[each];
    plane.receiver = std::make_unique<PlaneReceiver>(std::string(Name(each)), plane.size_bytes,
                                                     plane.size_bytes, std::move(memory[each]));
    for (std::uint64_t at = 0; at < plane.size_bytes; at += kDigestChunkBytes) {
      plane.chunk_bytes.push_back(std::min(kDigestChunkBytes, plane.size_bytes - at));
    }
    plane.chunks.resize(plane.chunk_bytes.size());
  }
}

absl::StatusOr<Upload::Received> Upload::Receive(const UploadChunk& chunk) {
  std::uint64_t bytes = 0;
  for (absl::string_view piece : chunk.pieces) bytes += piece.size();
  Plane& plane = planes_[chunk.plane];
  if (form_.plane(chunk.plane) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk.plane is ", Name(chunk.plane), ", which the operand does not have"));
  }
  if (chunk.offset > plane.size_bytes || bytes > plane.size_bytes - chunk.offset) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk of ", bytes, " bytes is at offset ",
                                                   chunk.offset, " of ", Name(chunk.plane),
                                                   ", which has ", plane.size_bytes, " bytes"));
  }
  if (absl::Status status = chunks_.Add(bytes); !status.ok()) return status;
  Received received;
  std::vector<ByteRange> parts;
  {
    const MutexLock lock(mutex_);
    if (abandoned_) return Dropped();
    parts = plane.claimed.Add({chunk.offset, chunk.offset + bytes});
    for (const ByteRange& part : parts) received.new_bytes += part.end - part.begin;
    received.repeated_bytes = bytes - received.new_bytes;
    claimed_bytes_ += received.new_bytes;
    ++receiving_;
  }
  for (const ByteRange& part : parts) Take(&plane, chunk, part);
  const MutexLock lock(mutex_);
  finished_bytes_ += received.new_bytes;
  received.is_last =
      received.new_bytes != 0 && finished_bytes_ == form_.size_bytes() && !abandoned_;
  finishing_ |= received.is_last;
  if (--receiving_ == 0) {
    if (abandoned_ && !finishing_) ReleaseLocked();
    still_.notify_all();
  }
  return received;
}

void Upload::Take(Plane* plane, const UploadChunk& chunk, ByteRange part) {
  if (part.begin == part.end) return;
  const std::uint64_t first = part.begin / kDigestChunkBytes;
  const std::uint64_t pieces = (part.end - 1) / kDigestChunkBytes - first + 1;
  helpers_->Run(static_cast<std::int64_t>(pieces), [&](int, std::int64_t i) {
    const std::uint64_t begin = (first + static_cast<std::uint64_t>(i)) * kDigestChunkBytes;
    TakeWithinPiece(plane, chunk,
                    {std::max(part.begin, begin), std::min(part.end, begin + kDigestChunkBytes)});
  });
}

void Upload::TakeWithinPiece(Plane* plane, const UploadChunk& chunk, ByteRange part) {
  const std::uint64_t bytes = part.end - part.begin;
  // The range was claimed, so nobody else brings it.
  plane->receiver->Receive(part.begin, Cut(chunk.pieces, part.begin - chunk.offset, bytes))
      .IgnoreError();
  const std::uint64_t index = part.begin / kDigestChunkBytes;
  {
    const MutexLock lock(mutex_);
    plane->chunk_bytes[index] -= bytes;
    if (plane->chunk_bytes[index] != 0) return;
  }
  const std::uint64_t begin = index * kDigestChunkBytes;
  const std::uint64_t end = std::min(begin + kDigestChunkBytes, plane->size_bytes);
  if (early_ != nullptr && chunk.plane == PlaneName::kData) early_->Add({begin, end});
  plane->chunks[index] = Sha256Of({plane->memory.front().data + begin, end - begin});
}

absl::StatusOr<Sha256Digest> Upload::MakeKept() {
  // As in Finish(), nobody else touches the memory.
  KeptPlanes planes{};
  for (const PlaneName each : kPlaneNames) {
    if (!kept_->memory[each].empty()) planes[each] = kept_->memory[each].front().data;
  }
  const char* const data = planes_[PlaneName::kData].memory.front().data;
  if (absl::Status s = Convert(form_.data, data, kept_->as, planes); !s.ok()) return s;
  OperandPlanes<std::vector<Sha256Digest>> chunks;
  for (const PlaneName each : kPlaneNames) {
    const MatrixLayout* const layout = kept_->as.form.plane(each);
    if (layout == nullptr) continue;
    chunks[each] = ChunkDigests({planes[each], layout->size_bytes()});
  }
  return DigestOf(kept_->as.form, chunks);
}

absl::StatusOr<Upload::Finished> Upload::Finish(std::shared_ptr<StoreTraffic> traffic) {
  // Nobody else touches planes and memory while finishing_ is set.
  OperandPlanes<std::vector<Sha256Digest>> chunks;
  for (const PlaneName each : kPlaneNames) chunks[each] = std::move(planes_[each].chunks);
  absl::Status status;
  if (DigestOf(form_, chunks) != digest_) {
    status = absl::InvalidArgumentError(
        "begin.digest is not that of the operand and the bytes that came (operands.proto says "
        "what is hashed); nothing is kept");
  } else {
    status = CheckScales();
  }
  Finished finished;
  finished.digest = digest_;
  if (status.ok() && kept_.has_value()) {
    absl::StatusOr<Sha256Digest> made = MakeKept();
    status = made.status();
    if (made.ok()) finished.digest = *made;
  }
  std::shared_ptr<const ResidentOperand> landed;
  if (early_ != nullptr && status.ok()) landed = early_->Finish();
  if (early_ != nullptr && !status.ok()) early_->Drop();
  std::shared_ptr<EarlyLanding> early;  // goes after the lock
  const MutexLock lock(mutex_);
  early = std::move(early_);
  if (status.ok() && abandoned_) status = Dropped();
  if (!status.ok()) {
    abandoned_ = true;
    ReleaseLocked();
    return status;
  }
  if (kept_.has_value()) {
    const std::shared_ptr<StoreHold> hold = hold_;
    finished.operand = std::make_shared<StoredOperand>(kept_->as.form, std::move(kept_->memory),
                                                       hold, std::move(traffic));
    ReleaseLocked();
    if (hold != nullptr) hold->ShrinkTo(kept_->as.form.size_bytes());
    return finished;
  }
  Memory memory;
  for (const PlaneName each : kPlaneNames) memory[each] = std::move(planes_[each].memory);
  finished.operand = std::make_shared<StoredOperand>(form_, std::move(memory), std::move(hold_),
                                                     std::move(traffic));
  if (landed != nullptr) finished.operand->SetLanded(early->device(), std::move(landed));
  return finished;
}

void Upload::SetEnded(const absl::Status& outcome, std::uint64_t resident_id) {
  std::vector<std::function<void(const absl::Status&)>> told;
  {
    const MutexLock lock(mutex_);
    finishing_ = false;
    outcome_ = outcome;
    resident_id_ = resident_id;
    told = std::move(waiting_);
    still_.notify_all();
  }
  for (const auto& each : told) each(outcome);
}

bool Upload::AwaitEnd(std::function<void(const absl::Status&)> done) {
  const MutexLock lock(mutex_);
  if (!finishing_) return false;
  waiting_.push_back(std::move(done));
  return true;
}

bool Upload::is_finishing() const {
  const MutexLock lock(mutex_);
  return finishing_;
}

std::optional<absl::Status> Upload::outcome() const {
  const MutexLock lock(mutex_);
  return outcome_;
}

std::uint64_t Upload::resident_id() const {
  const MutexLock lock(mutex_);
  return resident_id_;
}

absl::Status Upload::CheckScales() const {
  for (const PlaneName plane : kPlaneNames) {
    const MatrixLayout* const layout = form_.plane(plane);
    if (layout == nullptr || plane == PlaneName::kData) continue;
    const std::string field = absl::StrCat("operand.", Name(plane));
    const Plane& held = planes_[plane];
    const void* const values = held.memory.front().data;
    absl::Status status = plane == PlaneName::kZeroPoints
                              ? CheckZeroPoints(field, form_.data.type, values, held.size_bytes)
                              : CheckScaleValues(field, layout->type, values, held.size_bytes);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void Upload::Abandon() {
  const MutexLock lock(mutex_);
  abandoned_ = true;
  if (receiving_ == 0 && !finishing_) ReleaseLocked();
}

std::shared_ptr<EarlyLanding> Upload::early_landing() const {
  const MutexLock lock(mutex_);
  return early_;
}

void Upload::ReleaseLocked() {
  early_ = nullptr;
  for (const PlaneName each : kPlaneNames) {
    planes_[each].receiver = nullptr;
    planes_[each].memory.clear();
  }
  if (kept_.has_value()) kept_->memory = {};
  hold_ = nullptr;
}

std::vector<MissingRange> Upload::Missing() const {
  const MutexLock lock(mutex_);
  std::vector<MissingRange> missing;
  for (const PlaneName each : kPlaneNames) {
    const Plane& plane = planes_[each];
    for (const ByteRange& range : plane.claimed.Missing(plane.size_bytes, kMostMissingRanges)) {
      missing.push_back({each, range});
    }
  }
  return missing;
}

std::uint64_t Upload::received_bytes() const {
  const MutexLock lock(mutex_);
  return claimed_bytes_;
}

void Upload::WaitUntilStill() const {
  const MutexLock lock(mutex_);
  while (receiving_ > 0 || finishing_) still_.wait(mutex_);
}

}  // namespace gemmd
