// Memory that a client shares with a server on its own host, as a value with a lifetime.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/calls/lease_renewal.h"
#include "client/operand.h"
#include "gemmd/v1/matrix.pb.h"
#include "gemmd/v1/regions.grpc.pb.h"
#include "grpcpp/channel.h"

namespace gemmd::client {

struct SharedRegionOptions {
  std::string name_prefix = "gemmd-";  // the server's shared_memory.name_prefix
  // Zero: the server's default, which is renewed in the background as long as the region lives
  // here. Else the region is forgotten when nobody has used it for so long.
  absl::Duration lease = absl::ZeroDuration();
};

// A POSIX shared-memory object, mapped here and registered there. Its random name is removed once
// the server has opened it, so that nothing stays in /dev/shm of a process that is killed.
// Destruction unregisters and unmaps it: let every product that names it end first. Destruction
// waits for the server, for 10 s at most, and so must not happen in a callback. In a child of
// fork() it leaves the region alone, because that is the parent's. Thread-safe, but for the bytes.
//
// A server that ends, or a process that is stopped for longer than its lease, loses the region:
// products that name it then get NOT_FOUND, which says so, and a new one must be created.
class SharedRegion {
 public:
  // Zeroed bytes. RESOURCE_EXHAUSTED: this host has no such memory; else errors are those of
  // Regions.Register.
  static absl::StatusOr<std::unique_ptr<SharedRegion>> Create(
      const std::shared_ptr<grpc::Channel>& channel, std::uint64_t bytes,
      const SharedRegionOptions& options = {});
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  char* data() const { return data_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  const std::string& name() const { return name_; }  // as RegionStatus tells it
  // For an operand or the output of a MatmulHeader: the bytes from there on, at any alignment.
  v1::SharedMemory At(std::uint64_t offset_bytes) const;

  // Begins the lease anew; products that name the region do too. NOT_FOUND: it ran out.
  absl::Status Renew();

 private:
  SharedRegion(const std::shared_ptr<grpc::Channel>& channel, std::string name,
               std::uint64_t bytes);
  absl::Status Map();
  void Unlink();
  absl::Status Register(const std::shared_ptr<grpc::Channel>& channel,
                        const SharedRegionOptions& options);

  std::unique_ptr<v1::Regions::Stub> stub_;
  const std::string name_;
  const std::uint64_t size_bytes_;
  const int owner_;  // process
  bool has_name_ = false;
  char* data_ = nullptr;
  std::string id_;
  std::unique_ptr<LeaseRenewal> renewal_;  // null: the caller asked for a lease
};

// The region's bytes from there on, for an operand or the destination of a product. The place keeps
// the region. The server refuses what does not fit.
SharedPlace PlaceIn(std::shared_ptr<const SharedRegion> region, std::uint64_t offset_bytes);

}  // namespace gemmd::client
