#include "server/device/plane_receiver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {

PlaneReceiver::PlaneReceiver(std::string name, std::uint64_t size_bytes, std::uint64_t padded_bytes,
                             HostBuffer memory)
    : name_(std::move(name)),
      size_bytes_(size_bytes),
      padded_bytes_(padded_bytes),
      memory_(std::move(memory)) {}

absl::Status PlaneReceiver::Receive(std::uint64_t offset,
                                    absl::Span<const absl::string_view> pieces) {
  std::uint64_t bytes = 0;
  for (absl::string_view piece : pieces) bytes += piece.size();
  if (offset > padded_bytes_ || bytes > padded_bytes_ - offset) {
    return absl::InvalidArgumentError(absl::StrCat("payload of ", name_, ": a chunk of ", bytes,
                                                   " bytes is at offset ", offset,
                                                   "; the plane has ", PlaneBytes()));
  }
  if (bytes == 0) return absl::OkStatus();
  const ByteRange range{offset, offset + bytes};
  if (absl::Status status = Claim(range); !status.ok()) return status;
  Copy(offset, pieces);
  const MutexLock lock(mutex_);
  received_bytes_ += bytes;
  received_plane_bytes_ += std::min(range.end, size_bytes_) - std::min(range.begin, size_bytes_);
  return absl::OkStatus();
}

absl::Status PlaneReceiver::Claim(ByteRange range) {
  const MutexLock lock(mutex_);
  if (claimed_.AddNew(range)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("payload of ", name_, ": bytes ", range.begin, " to ", range.end,
                   " overlap with an earlier chunk; chunks must cover the plane exactly once"));
}

void PlaneReceiver::Copy(std::uint64_t offset, absl::Span<const absl::string_view> pieces) {
  auto to = memory_.begin();
  // From here on, `offset` is within *to.
  while (to != memory_.end() && offset >= to->size_bytes) {
    offset -= to->size_bytes;
    ++to;
  }
  for (absl::string_view from : pieces) {
    while (!from.empty() && to != memory_.end()) {
      const std::uint64_t bytes = std::min<std::uint64_t>(from.size(), to->size_bytes - offset);
      std::memcpy(to->data + offset, from.data(), bytes);
      from.remove_prefix(bytes);
      offset += bytes;
      if (offset == to->size_bytes) {
        offset = 0;
        ++to;
      }
    }
  }
}

bool PlaneReceiver::complete() const {
  const MutexLock lock(mutex_);
  return received_plane_bytes_ == size_bytes_;
}

std::uint64_t PlaneReceiver::received_bytes() const {
  const MutexLock lock(mutex_);
  return received_bytes_;
}

std::vector<ByteRange> PlaneReceiver::Missing() const {
  const MutexLock lock(mutex_);
  return claimed_.Missing(size_bytes_);
}

absl::Status PlaneReceiver::CheckComplete() const {
  const std::uint64_t received = received_bytes();
  if (complete() && (received == size_bytes_ || received == padded_bytes_)) {
    return absl::OkStatus();
  }
  const std::vector<ByteRange> missing = Missing();
  return absl::InvalidArgumentError(absl::StrCat(
      "payload of ", name_, " has ", received, " bytes",
      missing.empty() ? "" : absl::StrCat(", and the next byte is ", missing.front().begin),
      "; its plane has ", PlaneBytes()));
}

std::string PlaneReceiver::PlaneBytes() const {
  if (padded_bytes_ == size_bytes_) return absl::StrCat(size_bytes_);
  return absl::StrCat(size_bytes_, " (", padded_bytes_, " with the last line's padding)");
}

}  // namespace gemmd
