// Large works that go in several launches: what they keep between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/math.h"
#include "server/device/cuda/launches/large_issuer.h"
#include "server/device/cuda/launches/out_of_core.h"
#include "server/device/device.h"

namespace gemmd {

// Issued by the ring's thread. INTERNAL with nothing under way: what was issued before failed.
class SlicedCudaWork : public SlicedWork {
 public:
  // One of slices().
  IssuedWork IssueSlice(int slice, CudaSlot* slot, StagingRing* ring) {
    return Try([&] { return IssueNext(static_cast<std::size_t>(slice), slot, ring); });
  }
  // The next of pieces_ahead().
  IssuedWork IssueAhead(CudaSlot* slot, StagingRing* ring) {
    return Try([&] { return IssueNextAhead(slot, ring); });
  }
  // After one that found no memory and is not issued again: those behind it fail too. Ends with
  // what the work has under way.
  IssuedWork GiveUp(CudaSlot* slot) {
    has_failed_ = true;
    return Settle(slot);
  }

 private:
  virtual IssuedWork IssueNext(std::size_t slice, CudaSlot* slot, StagingRing* ring) = 0;
  // REQUIRES: pieces_ahead() promises one more.
  virtual IssuedWork IssueNextAhead(CudaSlot* /*slot*/, StagingRing* /*ring*/) { return {}; }
  // Commands of a slice that found no memory.
  virtual IssuedWork Settle(CudaSlot* /*slot*/) { return {}; }

  IssuedWork Try(absl::FunctionRef<IssuedWork()> issue) {
    IssuedWork issued;
    if (has_failed_) {
      issued.status = absl::InternalError("an earlier slice of the work failed");
      return issued;
    }
    issued = issue();
    // One that found no memory is issued again.
    const bool is_again = issued.last == nullptr && absl::IsResourceExhausted(issued.status);
    has_failed_ = !issued.status.ok() && !is_again;
    return issued;
  }

  bool has_failed_ = false;
};

// A block that is freed with its owner, in the stream's order. A failure to free means that the
// device is lost, which is reported elsewhere.
class OwnedBlock {
 public:
  OwnedBlock(std::shared_ptr<CudaBackend> backend, CudaStream stream)
      : backend_(std::move(backend)), stream_(stream) {}
  ~OwnedBlock() { Free(); }
  OwnedBlock(const OwnedBlock&) = delete;
  OwnedBlock& operator=(const OwnedBlock&) = delete;

  // For those who allocate and free it.
  char** memory() { return &memory_; }
  void Free() {
    if (memory_ != nullptr) backend_->Free(memory_, stream_).IgnoreError();
    memory_ = nullptr;
  }

 private:
  const std::shared_ptr<CudaBackend> backend_;
  const CudaStream stream_;
  char* memory_ = nullptr;
};

// A panel each, of one block that holds all of the work.
class WorkInPanels final : public SlicedCudaWork {
 public:
  // REQUIRES: at least 2 panels, that cut M or N but not both.
  WorkInPanels(std::shared_ptr<CudaBackend> backend, const LargeIssuer* issuer, DeviceWork work,
               std::vector<Panel> panels, std::uint64_t panel_bytes)
      : issuer_(issuer),
        work_(std::move(work)),
        prepared_(PrepareInPanels(work_, work_.resident.which(), std::move(panels))),
        block_(std::move(backend), issuer->streams().copy_out),
        ahead_(CutIntoPieces(prepared_, panel_bytes)) {}

  int slices() const override { return static_cast<int>(prepared_.panels.size()); }
  int pieces_ahead() const override { return ahead_.count; }
  const PreparedWork& prepared() const { return prepared_; }

 private:
  IssuedWork IssueNext(std::size_t slice, CudaSlot* slot, StagingRing* ring) override {
    return issuer_->IssuePanels(prepared_, slice, slice + 1, ahead_, block_.memory(), slot, ring);
  }
  IssuedWork IssueNextAhead(CudaSlot* slot, StagingRing* ring) override {
    IssuedWork issued = issuer_->IssueAhead(prepared_, ahead_, block_.memory(), slot, ring);
    if (issued.status.ok()) ++ahead_.issued;
    return issued;
  }

  const LargeIssuer* const issuer_;
  const DeviceWork work_;
  const PreparedWork prepared_;
  // When it goes, all slices that were issued have ended: each holds the work.
  OwnedBlock block_;
  PiecesAhead ahead_;  // its count is constant
};

// A stack, some products a slice, which are laid out together.
class StackInParts final : public SlicedCudaWork {
 public:
  // REQUIRES: LayOutStack() lays the stack out, and products_each >= 1.
  StackInParts(const LargeIssuer* issuer, DeviceWork stacked, std::int64_t products_each)
      : issuer_(issuer), stacked_(std::move(stacked)), products_each_(products_each) {}

  int slices() const override {
    return static_cast<int>(CeilOfRatio(stacked_.stack.count, products_each_));
  }

 private:
  IssuedWork IssueNext(std::size_t slice, CudaSlot* slot, StagingRing* ring) override {
    const std::int64_t begin = static_cast<std::int64_t>(slice) * products_each_;
    const DeviceWork part =
        PartOf(stacked_, begin, std::min(begin + products_each_, stacked_.stack.count));
    return issuer_->IssueStack(part, LayOutStack(part).value(), slot, ring);
  }

  const LargeIssuer* const issuer_;
  const DeviceWork stacked_;
  const std::int64_t products_each_;
};

// A part each, of a work that the device's memory does not hold (out_of_core.h).
class WorkInParts final : public SlicedCudaWork {
 public:
  // REQUIRES: at least 2 parts.
  WorkInParts(std::shared_ptr<CudaBackend> backend, const LargeIssuer* issuer, DeviceWork work,
              PartCut parts, std::uint64_t panel_bytes)
      : issuer_(issuer),
        work_(std::move(work)),
        parts_(std::move(parts)),
        panel_bytes_(panel_bytes),
        strip_(std::move(backend), issuer->streams().copy_out) {}

  int slices() const override { return static_cast<int>(parts_.panels.size()); }

 private:
  IssuedWork IssueNext(std::size_t slice, CudaSlot* slot, StagingRing* ring) override;
  IssuedWork Settle(CudaSlot* slot) override;
  // Frees the strip of the parts before, and brings this one's.
  absl::Status BringStrip(std::size_t slice, CudaSlot* slot, StagingRing* ring);

  const LargeIssuer* const issuer_;
  const DeviceWork work_;
  const PartCut parts_;
  const std::uint64_t panel_bytes_;
  // Behind the last result's copy, and so behind all that read it.
  OwnedBlock strip_;
  std::size_t has_strip_ = 0;  // the first part of the strip that is there, if one is
  IssuedWork brought_;         // the strip, which is told with its first part
};

}  // namespace gemmd
