#include "client/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/calls/timer.h"
#include "client/channel.h"
#include "client/status.h"

namespace gemmd::client {
namespace {

// Nobody guesses it: whoever knows the name may register the object too.
std::string RandomName(const std::string& prefix) {
  std::random_device random;
  std::string name = prefix;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&name, absl::Hex(random(), absl::kZeroPad8));
  return name;
}

absl::Status HostError(const std::string& name, std::uint64_t bytes, int error) {
  const std::string text = absl::StrCat("shared memory \"", name, "\" of ", bytes,
                                        " bytes cannot be made: ", std::strerror(error));
  return error == ENOSPC || error == ENOMEM ? absl::ResourceExhaustedError(text)
                                            : absl::FailedPreconditionError(text);
}

// For calls about regions, which are short: the server is on this host.
constexpr absl::Duration kCallTimeout = absl::Seconds(5);

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
}

absl::Duration FromWire(const google::protobuf::Duration& wire) {
  return absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

// One renewal after another of one region. Its owner is the one that asks, and not the call: gRPC's
// callbacks must not be the last to let a channel go.
struct Renewal {
  std::unique_ptr<v1::Regions::Stub> stub;
  v1::RenewRegionRequest request;
  v1::RenewRegionResponse response;
  std::optional<grpc::ClientContext> context;
};

LeaseRenewal::Ask AskFor(const std::shared_ptr<grpc::Channel>& channel, const std::string& region) {
  const auto renewal = std::make_shared<Renewal>();
  renewal->stub = v1::Regions::NewStub(channel);
  renewal->request.set_region(region);
  return [renewal](LeaseRenewal::Done done) {
    renewal->context.emplace();
    SetDeadline(&*renewal->context);
    renewal->stub->async()->Renew(
        &*renewal->context, &renewal->request, &renewal->response,
        [response = &renewal->response, done = std::move(done)](const grpc::Status& status) {
          if (!status.ok()) return done(FromGrpc(status));
          done(FromWire(response->lease()));
        });
  };
}

}  // namespace

SharedRegion::SharedRegion(const std::shared_ptr<grpc::Channel>& channel, std::string name,
                           std::uint64_t bytes)
    : stub_(v1::Regions::NewStub(channel)),
      name_(std::move(name)),
      size_bytes_(bytes),
      owner_(getpid()) {}

absl::StatusOr<std::unique_ptr<SharedRegion>> SharedRegion::Create(
    const std::shared_ptr<grpc::Channel>& channel, std::uint64_t bytes,
    const SharedRegionOptions& options) {
  std::unique_ptr<SharedRegion> region(
      new SharedRegion(channel, RandomName(options.name_prefix), bytes));
  if (absl::Status s = region->Map(); !s.ok()) return s;
  if (absl::Status s = region->Register(channel, options); !s.ok()) return s;
  return region;
}

SharedRegion::~SharedRegion() {
  if (getpid() != owner_) {
    // gRPC's threads are not here, and whoever waits for them waits for ever.
    [[maybe_unused]] const auto* const renewal = renewal_.release();
    [[maybe_unused]] const auto* const stub = stub_.release();
    if (data_ != nullptr) munmap(data_, size_bytes_);
    return;
  }
  renewal_.reset();
  if (!id_.empty()) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::UnregisterRegionRequest request;
    request.set_region(id_);
    v1::UnregisterRegionResponse response;
    // If the server is gone, so is the region there; if not, its lease ends.
    static_cast<void>(stub_->Unregister(&context, request, &response));
  }
  if (data_ != nullptr) munmap(data_, size_bytes_);
  Unlink();
}

void SharedRegion::Unlink() {
  if (std::exchange(has_name_, false)) shm_unlink(absl::StrCat("/", name_).c_str());
}

absl::Status SharedRegion::Map() {
  const int file =
      shm_open(absl::StrCat("/", name_).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return HostError(name_, size_bytes_, errno);
  has_name_ = true;
  // Takes the pages now: later, their lack would be SIGBUS instead of an error.
  const int error = posix_fallocate(file, 0, static_cast<off_t>(size_bytes_));
  absl::Status status = error == 0 ? absl::OkStatus() : HostError(name_, size_bytes_, error);
  if (status.ok()) {
    void* const memory = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
      status = HostError(name_, size_bytes_, errno);
    } else {
      data_ = static_cast<char*>(memory);
    }
  }
  close(file);
  return status;
}

absl::Status SharedRegion::Register(const std::shared_ptr<grpc::Channel>& channel,
                                    const SharedRegionOptions& options) {
  const absl::Duration lease = options.lease;
  grpc::ClientContext context;
  v1::RegisterRegionRequest request;
  request.mutable_posix()->set_name(name_);
  request.mutable_posix()->set_size_bytes(size_bytes_);
  if (lease > absl::ZeroDuration()) {
    const std::int64_t seconds = absl::ToInt64Seconds(lease);
    request.mutable_lease()->set_seconds(seconds);
    request.mutable_lease()->set_nanos(
        static_cast<std::int32_t>(absl::ToInt64Nanoseconds(lease - absl::Seconds(seconds))));
  }
  v1::RegisterRegionResponse response;
  const grpc::Status status = stub_->Register(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  id_ = response.region();
  // The server has it open. Without a name it goes with the last of the two, however this ends.
  Unlink();
  if (lease <= absl::ZeroDuration()) {
    renewal_ = std::make_unique<LeaseRenewal>(FromWire(response.lease()), AskFor(channel, id_),
                                              MakeAlarmTimer());
  }
  return absl::OkStatus();
}

v1::SharedMemory SharedRegion::At(std::uint64_t offset_bytes) const {
  v1::SharedMemory memory;
  memory.set_region(id_);
  memory.set_offset_bytes(offset_bytes);
  return memory;
}

absl::Status SharedRegion::Renew() {
  grpc::ClientContext context;
  v1::RenewRegionRequest request;
  request.set_region(id_);
  v1::RenewRegionResponse response;
  return FromGrpc(stub_->Renew(&context, request, &response));
}

SharedPlace PlaceIn(std::shared_ptr<const SharedRegion> region, std::uint64_t offset_bytes) {
  const std::uint64_t offset = std::min(offset_bytes, region->size_bytes());
  const absl::string_view bytes(region->data() + offset, region->size_bytes() - offset);
  SharedPlace place;
  place.memory = region->At(offset_bytes);
  place.bytes = Bytes(std::move(region), bytes);
  return place;
}

}  // namespace gemmd::client
