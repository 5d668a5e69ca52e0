#include "client/load/shared_payload.h"

#include <cstring>
#include <utility>

#include "client/matrix.h"
#include "client/shared_region.h"

namespace gemmd::load {
namespace {

// Rounds up to an offset at which a plane may begin: any device copies from there without slowing
// down.
std::uint64_t Aligned(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 4096;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

absl::StatusOr<SharedPayload> Share(const std::shared_ptr<grpc::Channel>& channel,
                                    const client::Matrix& a, const client::Matrix& b,
                                    client::MatmulOptions options, DataType output) {
  const client::MatrixFormat d{output, a.format().rows, b.format().columns};
  const absl::StatusOr<std::uint64_t> d_bytes = client::SizeBytes(d);
  if (!d_bytes.ok()) return d_bytes.status();
  const std::uint64_t b_offset = Aligned(a.bytes().size());
  const std::uint64_t d_offset = b_offset + Aligned(b.bytes().size());
  absl::StatusOr<std::unique_ptr<client::SharedRegion>> created =
      client::SharedRegion::Create(channel, d_offset + *d_bytes);
  if (!created.ok()) return created.status();
  const std::shared_ptr<client::SharedRegion> region = *std::move(created);
  std::memcpy(region->data(), a.bytes().data(), a.bytes().size());
  std::memcpy(region->data() + b_offset, b.bytes().data(), b.bytes().size());
  options.destination = client::PlaceIn(region, d_offset);
  client::MatmulInputs inputs{client::SharedOperand{client::PlaceIn(region, 0), a.format()},
                              client::SharedOperand{client::PlaceIn(region, b_offset), b.format()}};
  return SharedPayload{client::Encode(std::move(inputs), options), region->data() + d_offset,
                       *d_bytes};
}

PayloadTurns::PayloadTurns(std::size_t payloads) {
  for (std::size_t i = 0; i < payloads; ++i) free_.push_back(i);
}

void PayloadTurns::Take(Use use) {
  std::size_t payload = 0;
  {
    const MutexLock lock(mutex_);
    if (free_.empty()) {
      waiting_.push_back(std::move(use));
      return;
    }
    payload = free_.back();
    free_.pop_back();
  }
  use(payload);
}

void PayloadTurns::GiveBack(std::size_t payload) {
  Use next;
  {
    const MutexLock lock(mutex_);
    if (waiting_.empty()) {
      free_.push_back(payload);
      return;
    }
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  next(payload);
}

}  // namespace gemmd::load
