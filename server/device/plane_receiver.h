// The bytes of one plane as they arrive: in pieces of any size and order, each byte once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ranges/range_set.h"
#include "base/sync/mutex.h"
#include "server/device/host_buffer.h"

namespace gemmd {

// Thread-safe: ranges are claimed one at a time, and copied at once by whoever brings them.
class PlaneReceiver {
 public:
  // Fills `memory`, which holds `size_bytes`. Those from there up to `padded_bytes` may come
  // too, all or none of them, and are dropped. `name` is the plane's in errors.
  PlaneReceiver(std::string name, std::uint64_t size_bytes, std::uint64_t padded_bytes,
                HostBuffer memory);

  // Copies the pieces, one after another, to `offset`. INVALID_ARGUMENT, with nothing
  // copied: some of these bytes came before, or lie beyond the plane.
  absl::Status Receive(std::uint64_t offset, absl::Span<const absl::string_view> pieces);

  // Returns whether the plane's own bytes are all there.
  bool complete() const;
  // INVALID_ARGUMENT, naming the next byte that is missing, or what of the padding is.
  absl::Status CheckComplete() const;
  // The missing ranges of the plane, in order. REQUIRES: no Receive() under way.
  std::vector<ByteRange> Missing() const;
  // Copied so far, dropped padding included.
  std::uint64_t received_bytes() const;

  const std::string& name() const { return name_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  const HostBuffer& memory() const { return memory_; }

 private:
  absl::Status Claim(ByteRange range);
  void Copy(std::uint64_t offset, absl::Span<const absl::string_view> pieces);
  std::string PlaneBytes() const;  // for errors

  const std::string name_;
  const std::uint64_t size_bytes_;
  const std::uint64_t padded_bytes_;
  const HostBuffer memory_;

  mutable Mutex mutex_;
  RangeSet claimed_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t received_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t received_plane_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // without padding
};

}  // namespace gemmd
