#include "server/device/cuda/memory/shared_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

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

// Turns an error into a refusal of the client's request, unless the device is lost.
absl::Status Refusal(const absl::Status& status, absl::string_view what) {
  if (absl::IsUnavailable(status)) return status;
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SharedMapping>> MapLockedFile(
    std::shared_ptr<CudaBackend> backend, int file, std::uint64_t offset, std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t skipped = offset % page;
  void* const base = mmap(nullptr, skipped + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                          static_cast<off_t>(offset - skipped));
  if (base == MAP_FAILED) {
    return absl::FailedPreconditionError(
        absl::StrCat("the region cannot be mapped: ", std::strerror(errno)));
  }
  auto mapping = std::make_shared<LockedFile>(std::move(backend), base, skipped, bytes);
  if (absl::Status status = mapping->Lock(); !status.ok()) {
    return Refusal(status, "the region's pages cannot be locked");
  }
  return std::shared_ptr<const SharedMapping>(std::move(mapping));
}

absl::StatusOr<std::shared_ptr<const SharedMapping>> MapIpcMemory(
    std::shared_ptr<CudaBackend> backend, absl::string_view handle, std::uint64_t offset,
    std::uint64_t bytes) {
  const absl::StatusOr<CudaSpan> span = backend->OpenIpcMemory(handle);
  if (!span.ok()) return Refusal(span.status(), "cuda.ipc_handle cannot be opened");
  auto mapping = std::make_shared<const IpcMemory>(std::move(backend), span->data, offset);
  if (offset > span->bytes || bytes > span->bytes - offset) {
    return absl::InvalidArgumentError(absl::StrCat("cuda.offset_bytes is ", offset,
                                                   " and cuda.size_bytes ", bytes,
                                                   "; the allocation has ", span->bytes, " bytes"));
  }
  return std::shared_ptr<const SharedMapping>(std::move(mapping));
}

}  // namespace gemmd
