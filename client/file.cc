#include "client/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file/file_target.h"
#include "base/math.h"
#include "base/process/cpu_share.h"
#include "base/sync/mutex.h"
#include "base/sync/thread_loop.h"

namespace gemmd::client {
namespace {

absl::Status Error(const std::string& path, absl::string_view doing) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", doing));
}

// Copies what is left of it into memory that is a file, because the size of a pipe is not known.
absl::StatusOr<int> Spool(const std::string& path, int from) {
  const int spool = ::memfd_create("gemm", MFD_CLOEXEC);
  if (spool < 0) return Error(path, "make memory for it");
  std::vector<char> buffer(1 << 20);
  while (true) {
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): others want these bytes
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return spool;
    absl::Status status = got < 0 ? Error(path, "read") : absl::OkStatus();
    for (ssize_t done = 0; status.ok() && done < got;) {
      const ssize_t written = ::write(spool, buffer.data() + done, static_cast<size_t>(got - done));
      if (written < 0 && errno != EINTR) status = Error(path, "keep in memory");
      done += std::max<ssize_t>(0, written);
    }
    if (status.ok()) continue;
    ::close(spool);
    return status;
  }
}

// A descriptor of the same bytes each time, though a pipe gives them once.
absl::StatusOr<int> OpenSpool(const std::string& path, int from) {
  static Mutex mutex;
  static std::map<int, int>& spools = *new std::map<int, int>;
  const MutexLock lock(mutex);
  auto found = spools.find(from);
  if (found == spools.end()) {
    const absl::StatusOr<int> spool = Spool(path, from);
    if (!spool.ok()) return spool.status();
    found = spools.emplace(from, *spool).first;
  }
  const int descriptor = ::fcntl(found->second, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return Error(path, "open");
  return descriptor;
}

absl::StatusOr<int> OpenForReading(const std::string& path) {
  const std::optional<int> own = path == "-" ? STDIN_FILENO : FollowLinks(path).descriptor;
  if (own) return OpenSpool(path, *own);
  // O_NONBLOCK, so that a pipe without a writer is refused by its caller and not waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return Error(path, "open");
  return descriptor;
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  const absl::StatusOr<int> opened = OpenForReading(path);
  if (!opened.ok()) return opened.status();
  const int descriptor = *opened;
  struct stat info;
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file; a pipe is read as - or /dev/fd/N alone"));
  }
  return InputFile(path, descriptor, static_cast<std::uint64_t>(info.st_size));
}

InputFile::InputFile(std::string path, int descriptor, std::uint64_t size_bytes)
    : path_(std::move(path)), descriptor_(descriptor), size_bytes_(size_bytes) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<std::string> InputFile::Read(std::uint64_t offset, std::uint64_t bytes) const {
  std::string text(bytes, '\0');
  if (absl::Status status = ReadInto(offset, bytes, text.data()); !status.ok()) return status;
  return text;
}

absl::StatusOr<Bytes> InputFile::ReadLarge(std::uint64_t offset, std::uint64_t bytes) const {
  constexpr std::uint64_t kPart = 16 << 20;  // less takes about as long as to start a thread
  Buffer buffer = Buffer::Allocate(bytes);
  const std::uint64_t count = CeilOfRatio(bytes, kPart);
  std::vector<absl::Status> ends(count);
  // One thread would copy from the page cache at a fraction of what memory gives, and wait for each
  // page of the buffer. A mapping would need no copy, and end the process where the file is cut.
  ForEachOnThreads(count, static_cast<std::size_t>(UsableCpus()), [&](std::size_t i) {
    const std::uint64_t begin = i * kPart;
    ends[i] = ReadInto(offset + begin, std::min(kPart, bytes - begin), buffer.data() + begin);
  });
  for (absl::Status& end : ends) {
    if (!end.ok()) return std::move(end);
  }
  return std::move(buffer).Freeze(bytes);
}

absl::StatusOr<Bytes> InputFile::Map() const {
  if (size_bytes_ == 0) return Bytes();  // which mmap() refuses
  void* const memory = ::mmap(nullptr, size_bytes_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (memory == MAP_FAILED) return Error(path_, "map");
  const std::uint64_t size = size_bytes_;
  std::shared_ptr<const void> owner(
      memory, [size](const void* held) { ::munmap(const_cast<void*>(held), size); });
  return Bytes::OfMappedFile(std::move(owner), {static_cast<const char*>(memory), size});
}

void ReleasePages(const Bytes& bytes) {
  // Danger: pages that are no file's would be zeros after it.
  if (!bytes.is_mapped_file()) return;
  const absl::string_view mapped = bytes.view();
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
  const std::uintptr_t skipped = RoundUp(begin, page) - begin;
  if (mapped.size() < skipped + page) return;
  const std::uintptr_t size = (mapped.size() - skipped) / page * page;
  // An error leaves the pages where they are, which costs memory alone.
  ::madvise(const_cast<char*>(mapped.data()) + skipped, size, MADV_DONTNEED);
}

absl::Status InputFile::ReadInto(std::uint64_t offset, std::uint64_t bytes, char* to) const {
  std::uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(descriptor_, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(path_, "read");
    if (got == 0) return absl::DataLossError(absl::StrCat(path_, ": shrank while it was read"));
    done += static_cast<std::uint64_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace gemmd::client
