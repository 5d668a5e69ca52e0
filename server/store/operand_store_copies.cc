// Copies of operands that one device holds and whose requests another could serve too.
#include <memory>
#include <utility>
#include <vector>

#include "server/store/operand_store.h"

namespace gemmd {

bool OperandStore::StartCopy(OperandCopy copy) {
  std::uint64_t bytes = 0;
  for (const auto& each : copy.operands) bytes += each->size_bytes();
  // The rest is for requests, which would soon take the copy's memory otherwise.
  constexpr std::uint64_t kPartOfRoom = 2;
  if (bytes > copy.device->memory().usage().free_bytes() / kPartOfRoom) {
    CountWithoutRoom(copy);
    return false;
  }
  return copier_.Take([this, copy = std::move(copy)] { MakeCopy(copy); });
}

void OperandStore::MakeCopy(const OperandCopy& copy) {
  std::vector<StoredOperand*> missing;
  for (const auto& each : copy.operands) {
    each->ForgetCopyDemand();
    if (!each->is_on(*copy.device)) missing.push_back(each.get());
  }
  const absl::Status status = copy.place();
  std::uint64_t made = 0;
  for (StoredOperand* const each : missing) {
    // Requests waited for this copy meanwhile, which says nothing of another one.
    each->ForgetCopyDemand();
    if (!each->is_on(*copy.device)) continue;
    // Without the others it serves nobody.
    if (status.ok()) {
      ++made;
    } else {
      each->DropCopy(copy.device);
    }
  }
  if (absl::IsResourceExhausted(status)) CountWithoutRoom(copy);
  const MutexLock lock(mutex_);
  counts_.copies += made;
}

void OperandStore::CountWithoutRoom(const OperandCopy& copy) {
  for (const auto& each : copy.operands) each->RestCopyDemand(clock_->Now());
  const MutexLock lock(mutex_);
  ++counts_.copies_without_room;
}

std::optional<std::uint64_t> OperandStore::DropCopyFrom(const Device* device) {
  if (options_.landing_devices.size() == 1) return std::nullopt;
  std::shared_ptr<StoredOperand> largest;
  {
    const MutexLock lock(mutex_);
    std::uint64_t most = 0;
    for (const auto& [id, entry] : entries_) {
      if (entry.operand == nullptr) continue;
      const std::uint64_t bytes = entry.operand->idle_copy_bytes(device);
      if (bytes <= most) continue;
      most = bytes;
      largest = entry.operand;
    }
  }
  if (largest == nullptr) return std::nullopt;
  const std::uint64_t bytes = largest->DropCopy(device);
  if (bytes == 0) return std::nullopt;
  largest->RestCopyDemand(clock_->Now());
  return bytes;
}

}  // namespace gemmd
