#include "server/device/cuda/planes/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/device/cuda/backend/commands.h"

namespace gemmd {
namespace {

// The part's lines, `pitch` apart, with zeros between them.
void GatherPart(const PlaneRect& part, const void* host, std::uint64_t host_pitch,
                std::uint64_t pitch, char* slab) {
  const std::uint64_t width = part.width();
  const std::uint64_t padding = pitch - width;
  const char* from = static_cast<const char*>(host) + StartOf(part, host_pitch);
  if (host_pitch == width && padding == 0) {
    std::memcpy(slab, from, width * static_cast<std::uint64_t>(part.lines()));
    return;
  }
  for (std::int64_t line = 0; line < part.lines(); ++line) {
    std::memcpy(slab, from, width);
    std::memset(slab + width, 0, padding);
    slab += width + padding;
    from += host_pitch;
  }
}

}  // namespace

CudaRect CopyOfRect(const PlaneRect& rect, const void* from_plane, std::uint64_t from_pitch,
                    void* to_plane, std::uint64_t to_pitch) {
  const auto line = static_cast<std::uint64_t>(rect.line_begin);
  return {static_cast<char*>(to_plane) + line * to_pitch + rect.byte_begin,
          to_pitch,
          static_cast<const char*>(from_plane) + line * from_pitch + rect.byte_begin,
          from_pitch,
          rect.width(),
          static_cast<std::uint64_t>(rect.lines())};
}

absl::StatusOr<std::unique_ptr<StagingRing>> StagingRing::Create(CudaBackend* backend,
                                                                 HostBuffer slabs,
                                                                 ThreadExecutor* executor,
                                                                 WaitUntilDone wait_until_done) {
  absl::StatusOr<std::vector<CudaEvent>> events = CreateEvents(backend, slabs.size());
  if (!events.ok()) return events.status();
  return std::unique_ptr<StagingRing>(new StagingRing(backend, std::move(slabs), *std::move(events),
                                                      executor, std::move(wait_until_done)));
}

StagingRing::StagingRing(CudaBackend* backend, HostBuffer slabs, std::vector<CudaEvent> events,
                         ThreadExecutor* executor, WaitUntilDone wait_until_done)
    : backend_(backend),
      slabs_(std::move(slabs)),
      events_(std::move(events)),
      is_recorded_(slabs_.size(), false),
      executor_(executor),
      wait_until_done_(std::move(wait_until_done)) {}

absl::Status StagingRing::Copy(const PlaneRect& rect, const void* host, std::uint64_t host_pitch,
                               void* device, std::uint64_t device_pitch, std::uint64_t line_bytes,
                               CudaStream stream) {
  // Copy engines are slow at short lines: what begins the device's lines and nearly fills
  // them is gathered with its padding, as one span of zeros and elements.
  constexpr std::uint64_t kPadding = 128;
  const bool fills_lines = rect.width() == line_bytes && device_pitch - rect.width() < kPadding;
  const std::uint64_t pitch = fills_lines ? device_pitch : rect.width();
  const std::vector<PlaneRect> parts = CutForSlabs(rect, pitch, slabs_.front().size_bytes);
  // A line longer than a slab travels tightly, in parts.
  const auto pitch_of = [&](const PlaneRect& part) {
    return part.width() == rect.width() ? pitch : part.width();
  };
  const auto batch = std::min(slabs_.size(), static_cast<std::size_t>(executor_->workers()));
  for (std::size_t begin = 0; begin < parts.size(); begin += batch) {
    const std::size_t end = std::min(parts.size(), begin + batch);
    for (std::size_t i = begin; i < end; ++i) {
      if (absl::Status s = WaitForSlab(SlabOf(i - begin)); !s.ok()) return s;
    }
    const auto gather = [&](int, std::int64_t i) {
      const auto index = static_cast<std::size_t>(i);
      GatherPart(parts[begin + index], host, host_pitch, pitch_of(parts[begin + index]),
                 slabs_[SlabOf(index)].data);
    };
    if (end - begin == 1) {
      gather(0, 0);
    } else {
      executor_->Run(static_cast<std::int64_t>(end - begin), gather);
    }
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t slab = SlabOf(i - begin);
      // Only the destination counts: the source is the slab.
      CudaRect copy = CopyOfRect(parts[i], host, host_pitch, device, device_pitch);
      copy.from = slabs_[slab].data;
      copy.width = copy.from_pitch = pitch_of(parts[i]);
      if (absl::Status s = backend_->Copy(CopyDirection::kToDevice, copy, stream); !s.ok()) {
        return s;
      }
      if (absl::Status s = backend_->Record(events_[slab], stream); !s.ok()) return s;
      is_recorded_[slab] = true;
    }
    next_ = SlabOf(end - begin);
  }
  return absl::OkStatus();
}

absl::Status StagingRing::WaitForSlab(std::size_t slab) {
  return is_recorded_[slab] ? wait_until_done_(events_[slab]) : absl::OkStatus();
}

}  // namespace gemmd
