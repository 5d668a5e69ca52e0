// The last records of many threads in memory of a fixed size: each new one takes the oldest's
// place.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/strings/string_view.h"

namespace gemmd {

// Thread-safe, and nobody waits: a writer who finds a slot in somebody's hands, which a reader's
// are for the time of copying it, loses its record, and that is counted.
class TraceRing {
 public:
  // A record takes as many slots as it needs, one behind the other.
  static constexpr std::size_t kSlotBytes = 256;
  static constexpr std::size_t kMostRecordBytes = 4096;

  // Takes at most `bytes`, all of it here, or nothing where that is less than a largest record.
  explicit TraceRing(std::size_t bytes);

  // Allocates nothing. REQUIRES: record.size() <= kMostRecordBytes.
  void Write(absl::string_view record);

  // The records that are there, oldest first: those that others write meanwhile perhaps, each whole
  // or not at all.
  void Read(const std::function<void(absl::string_view)>& visit) const;

  std::size_t bytes() const { return slot_count_ * sizeof(Slot); }
  std::uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kHeadBytes = 16;
  static constexpr std::size_t kDataBytes = kSlotBytes - kHeadBytes;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct Slot {
    std::atomic<bool> is_taken{false};
    std::uint8_t part = 0;   // of the record's
    std::uint8_t parts = 0;  // of the record
    std::uint16_t size = 0;  // of the record, in bytes
    std::uint64_t ticket = kNever;
    std::array<char, kDataBytes> data{};
  };
  static_assert(sizeof(Slot) == kSlotBytes);

  static std::size_t PartsOf(std::size_t bytes) {
    return bytes == 0 ? 1 : (bytes + kDataBytes - 1) / kDataBytes;
  }
  static bool Take(Slot& slot) { return !slot.is_taken.exchange(true, std::memory_order_acquire); }
  static void GiveBack(Slot& slot) { slot.is_taken.store(false, std::memory_order_release); }
  // Copies the part that has this ticket. 0: it is not there, or not this one; else the parts of
  // its record.
  std::size_t CopyPart(std::uint64_t ticket, std::size_t part, char* into, std::size_t* size) const;

  const std::size_t slot_count_;
  const std::unique_ptr<Slot[]> slots_;
  std::atomic<std::uint64_t> next_{0};  // ticket
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace gemmd
