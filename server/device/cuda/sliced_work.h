// A large work that goes in several launches, a panel each: what it keeps between them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "server/device/cuda/large_issuer.h"
#include "server/device/device.h"

namespace gemmd {

class SlicedCudaWork final : public SlicedWork {
 public:
  // REQUIRES: at least 2 panels, that cut M or N but not both.
  SlicedCudaWork(std::shared_ptr<CudaBackend> backend, const LargeIssuer* issuer, DeviceWork work,
                 std::vector<Panel> panels)
      : backend_(std::move(backend)),
        issuer_(issuer),
        work_(std::move(work)),
        prepared_(PrepareInPanels(work_, work_.resident.which(), std::move(panels))),
        stream_(issuer->streams().copy_out) {}
  // A failure to free means that the device is lost, which is reported elsewhere. All slices that
  // were issued have ended: each holds the work.
  ~SlicedCudaWork() override {
    if (block_ != nullptr) backend_->Free(block_, stream_).IgnoreError();
  }
  SlicedCudaWork(const SlicedCudaWork&) = delete;
  SlicedCudaWork& operator=(const SlicedCudaWork&) = delete;

  int slices() const override { return static_cast<int>(prepared_.panels.size()); }
  const PreparedWork& prepared() const { return prepared_; }

  // Called by the ring's thread. INTERNAL with nothing under way: a slice before this one failed.
  IssuedWork Issue(int slice, CudaSlot* slot, StagingRing* ring) {
    IssuedWork issued;
    if (has_failed_) {
      issued.status = absl::InternalError("an earlier slice of the work failed");
      return issued;
    }
    const auto index = static_cast<std::size_t>(slice);
    issued = issuer_->IssuePanels(prepared_, index, index + 1, &block_, slot, ring);
    // One that found no memory is issued again.
    const bool is_again = issued.last == nullptr && absl::IsResourceExhausted(issued.status);
    has_failed_ = !issued.status.ok() && !is_again;
    return issued;
  }

 private:
  const std::shared_ptr<CudaBackend> backend_;
  const LargeIssuer* const issuer_;
  const DeviceWork work_;
  const PreparedWork prepared_;
  const CudaStream stream_;
  // Used by the ring's thread while slices are submitted.
  char* block_ = nullptr;
  bool has_failed_ = false;
};

}  // namespace gemmd
