// Brings an upload's data to a device while they come, so that the upload's end waits for the rest
// alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ranges/range_set.h"
#include "base/sync/mutex.h"
#include "kernels/gemm.h"
#include "server/device/device.h"
#include "server/device/keyed_pool.h"

namespace gemmd {

// The device with most free memory; null: there is none.
Device* RoomiestOf(const std::vector<Device*>& devices);

// It takes room on the device that nobody else has, with the first bytes that it brings, and gives
// it up to whoever needs it: the host has every byte until the end. Where that happens, or anything
// fails, the plane lands when it is whole. Thread-safe; the thread that brings holds a reference.
class EarlyLanding : public std::enable_shared_from_this<EarlyLanding> {
 public:
  // The data are that plane of the problem, in one piece. They come to the roomiest of the devices,
  // some `batch_bytes` at a time. Devices and thread outlive it.
  EarlyLanding(std::vector<Device*> devices, const Problem& problem, WorkPlane plane,
               HostPiece data, std::uint64_t batch_bytes, KeyedPool* thread);

  // These bytes are there now. REQUIRES: none of them was before.
  void Add(ByteRange bytes);

  // Brings what has not come yet, and waits. Null: it was given up, or has not begun, and its
  // memory is free again. REQUIRES: all bytes are there.
  std::shared_ptr<const ResidentOperand> Finish();

  // Gives the landing up. Returns the bytes of the device's memory that are free for that.
  std::uint64_t Drop();

  // Where the data come, or came; null: it has not begun.
  Device* device();

 private:
  // The bytes that wait, in as few ranges as they make, in order. Nothing: it is over, and bytes
  // may be lost.
  std::optional<std::vector<ByteRange>> TakeWaiting();
  void BringWaiting();
  void BeginWhileBringing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bringing_);
  // CANCELLED: it was given up meanwhile.
  absl::Status Bring(const std::vector<ByteRange>& ranges, ArrivingOperand* arrival);
  bool is_over();
  void SetOver();

  const std::vector<Device*> devices_;
  const Problem problem_;
  const WorkPlane plane_;
  const HostPiece data_;
  const std::uint64_t batch_bytes_;
  KeyedPool* const thread_;

  // Held while bytes move.
  Mutex bringing_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::unique_ptr<ArrivingOperand> arrival_ ABSL_GUARDED_BY(bringing_);  // null: not begun, or over

  Mutex mutex_;
  Device* device_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<ByteRange> waiting_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_posted_ ABSL_GUARDED_BY(mutex_) = false;  // the thread will look
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;    // finished or given up
};

}  // namespace gemmd
