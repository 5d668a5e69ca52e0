#include "server/trace/trace_ring.h"

#include <algorithm>

namespace gemmd {

TraceRing::TraceRing(std::size_t bytes)
    : slot_count_(bytes / sizeof(Slot) < PartsOf(kMostRecordBytes) ? 0 : bytes / sizeof(Slot)),
      slots_(slot_count_ == 0 ? nullptr : std::make_unique<Slot[]>(slot_count_)) {}

void TraceRing::Write(absl::string_view record) {
  if (slot_count_ == 0) return;
  written_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t parts = PartsOf(record.size());
  const std::uint64_t first = next_.fetch_add(parts, std::memory_order_relaxed);
  for (std::size_t part = 0; part < parts; ++part) {
    const std::uint64_t ticket = first + part;
    Slot& slot = slots_[ticket % slot_count_];
    // A reader knows records whose parts are not all there, and a writer so late that others have
    // been round the ring meanwhile has nothing to say.
    if (!Take(slot)) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (slot.ticket != kNever && slot.ticket > ticket) {
      GiveBack(slot);
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    slot.ticket = ticket;
    slot.part = static_cast<std::uint8_t>(part);
    slot.parts = static_cast<std::uint8_t>(parts);
    slot.size = static_cast<std::uint16_t>(record.size());
    const absl::string_view data = record.substr(part * kDataBytes, kDataBytes);
    std::copy(data.begin(), data.end(), slot.data.begin());
    GiveBack(slot);
  }
}

std::size_t TraceRing::CopyPart(std::uint64_t ticket, std::size_t part, char* into,
                                std::size_t* size) const {
  Slot& slot = slots_[ticket % slot_count_];
  if (!Take(slot)) return 0;
  std::size_t parts = 0;
  if (slot.ticket == ticket && slot.part == part) {
    parts = slot.parts;
    *size = slot.size;
    const std::size_t here = std::min(slot.size - part * kDataBytes, kDataBytes);
    std::copy_n(slot.data.begin(), here, into);
  }
  GiveBack(slot);
  return parts;
}

void TraceRing::Read(const std::function<void(absl::string_view)>& visit) const {
  if (slot_count_ == 0) return;
  std::array<char, kMostRecordBytes> record{};
  const std::uint64_t end = next_.load(std::memory_order_relaxed);
  std::uint64_t ticket = end > slot_count_ ? end - slot_count_ : 0;
  while (ticket < end) {
    std::size_t size = 0;
    const std::size_t parts = CopyPart(ticket, 0, record.data(), &size);
    std::size_t part = 1;
    while (part < parts &&
           CopyPart(ticket + part, part, record.data() + part * kDataBytes, &size) == parts) {
      ++part;
    }
    if (parts == 0 || part < parts) {
      ++ticket;
      continue;
    }
    visit(absl::string_view(record.data(), size));
    ticket += parts;
  }
}

}  // namespace gemmd
