// Memory of other processes, page-locked or on the device.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/landing.h"

namespace gemmd {
namespace {

// Part of a file, mapped and locked.
class LockedFile final : public SharedMapping {
 public:
  LockedFile(std::shared_ptr<CudaBackend> backend, void* base, std::uint64_t skipped,
             std::uint64_t bytes)
      : backend_(std::move(backend)), base_(base), skipped_(skipped), bytes_(bytes) {}
  ~LockedFile() override {
    if (is_locked_) backend_->UnregisterPinned(base_);
    munmap(base_, skipped_ + bytes_);
  }

  absl::Status Lock() {
    absl::Status status = backend_->RegisterPinned(base_, skipped_ + bytes_);
    is_locked_ = status.ok();
    return status;
  }

  char* data() const override { return static_cast<char*>(base_) + skipped_; }
  Access access() const override { return Access::kDirect; }

 private:
  const std::shared_ptr<CudaBackend> backend_;
  void* const base_;
  const std::uint64_t skipped_;  // from the page's start to the first byte
  const std::uint64_t bytes_;
  bool is_locked_ = false;
};

class IpcMemory final : public SharedMapping {
 public:
  IpcMemory(std::shared_ptr<CudaBackend> backend, void* base, std::uint64_t offset)
      : backend_(std::move(backend)), base_(base), offset_(offset) {}
  ~IpcMemory() override { backend_->CloseIpcMemory(base_); }

  char* data() const override { return static_cast<char*>(base_) + offset_; }
  Access access() const override { return Access::kDevice; }

 private:
  const std::shared_ptr<CudaBackend> backend_;
  void* const base_;
  const std::uint64_t offset_;
};

// An operand where another process has it; whoever submits the work keeps it there.
class InPlaceOperand final : public ResidentOperand {
 public:
  InPlaceOperand(const void* data, const MatrixLayout& layout) : data_(data), layout_(layout) {}
  const void* data() const override { return data_; }
  const MatrixLayout& layout() const override { return layout_; }
  std::uint64_t size_bytes() const override { return 0; }  // of this server's

 private:
  const void* const data_;
  const MatrixLayout layout_;
};

// What the client asked for cannot be done here, unless the device is lost.
absl::Status Refusal(const absl::Status& status, absl::string_view what) {
  if (absl::IsUnavailable(status)) return status;
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", status.message()));
}

bool IsAsLanded(const MatrixLayout& sent, const MatrixLayout& landed, const void* data) {
  constexpr std::uintptr_t kAlignment = 256;  // of what the device allocates itself
  return sent.rows == landed.rows && sent.columns == landed.columns && sent.order == landed.order &&
         sent.leading_dimension == landed.leading_dimension &&
         reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SharedMapping>> CudaDevice::MapShared(int file,
                                                                           std::uint64_t offset,
                                                                           std::uint64_t bytes) {
  if (absl::Status status = lost(); !status.ok()) return status;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t skipped = offset % page;
  void* const base = mmap(nullptr, skipped + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                          static_cast<off_t>(offset - skipped));
  if (base == MAP_FAILED) {
    return absl::FailedPreconditionError(
        absl::StrCat("the region cannot be mapped: ", std::strerror(errno)));
  }
  auto mapping = std::make_shared<LockedFile>(backend_, base, skipped, bytes);
  if (absl::Status status = mapping->Lock(); !status.ok()) {
    return Refusal(status, "the region's pages cannot be locked");
  }
  return std::shared_ptr<const SharedMapping>(std::move(mapping));
}

absl::StatusOr<std::shared_ptr<const SharedMapping>> CudaDevice::MapDeviceMemory(
    absl::string_view handle, std::uint64_t offset, std::uint64_t bytes) {
  if (absl::Status status = lost(); !status.ok()) return status;
  const absl::StatusOr<CudaSpan> span = backend_->OpenIpcMemory(handle);
  if (!span.ok()) return Refusal(span.status(), "cuda.ipc_handle cannot be opened");
  auto mapping = std::make_shared<const IpcMemory>(backend_, span->data, offset);
  if (offset > span->bytes || bytes > span->bytes - offset) {
    return absl::InvalidArgumentError(absl::StrCat("cuda.offset_bytes is ", offset,
                                                   " and cuda.size_bytes ", bytes,
                                                   "; the allocation has ", span->bytes, " bytes"));
  }
  return std::shared_ptr<const SharedMapping>(std::move(mapping));
}

void CudaDevice::UseInPlace(DeviceWork* work) const {
  const HostBuffers& buffers = work->buffers;
  if (buffers.a_access != Access::kDevice && buffers.b_access != Access::kDevice) return;
  const Problem landed = LandedProblem(work->problem);
  DeviceWork in_place = *work;
  if (buffers.a_access == Access::kDevice && IsAsLanded(work->problem.a, landed.a, buffers.a)) {
    in_place.resident.a = std::make_shared<const InPlaceOperand>(buffers.a, landed.a);
    in_place.buffers.a = nullptr;
  }
  if (buffers.b_access == Access::kDevice && IsAsLanded(work->problem.b, landed.b, buffers.b)) {
    in_place.resident.b = std::make_shared<const InPlaceOperand>(buffers.b, landed.b);
    in_place.buffers.b = nullptr;
  }
  if (in_place.resident.a == work->resident.a && in_place.resident.b == work->resident.b) return;
  // Memory was reserved for copies: other panels than theirs must not need more.
  const std::uint64_t reserved = Prepare(*work, options_.panel_bytes).block.total_bytes;
  if (Prepare(in_place, options_.panel_bytes).block.total_bytes <= reserved) {
    *work = std::move(in_place);
  }
}

}  // namespace gemmd
