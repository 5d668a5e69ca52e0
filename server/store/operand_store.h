// The operands that the server keeps, by tenant, handle, digest and the names that tenants give.
//
//   uploading   BeginUpload() made room for all of it; its lease is renewed by bytes that are new,
//               and by nothing else. One that is to be quantized is not found by its digest
//   resident    every byte came, and has the digest (or it is a product's result)
//   gone        released, evicted, or its bytes had another digest
//
// Room is made by evicting what has no lease and is not in use, the longest unused first; a
// leased operand never goes. Its memory stays until its last user lets go.
//
// operand_store_uploads.cc has uploads until they are operands, operand_store_names.cc names,
// operand_store_copies.cc copies on more devices than one, operand_store.cc all else.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/device/device.h"
#include "server/device/thread_executor.h"
#include "server/store/converter.h"
#include "server/store/copier.h"
#include "server/store/lease_list.h"
#include "server/store/missing.h"
#include "server/store/operand_form.h"
#include "server/store/store_budget.h"
#include "server/store/stored_operand.h"
#include "server/store/upload.h"
#include "server/tenants/tenant.h"

namespace gemmd {

struct StoreOptions {
  StoreShare all;     // of all tenants together; uploads and results under way included
  StoreShare tenant;  // of each
  // The share of all tenants together that claim their names from one address; absent: no less than
  // `all`.
  std::optional<StoreShare> address;
  std::set<std::string> proxies;  // addresses that many clients share, without a limit
  TimeNs default_lease = 0;
  TimeNs max_lease = 0;
  // The lease of a broken upload that lacks hardly anything. It shrinks with the part that came,
  // but not below `upload_grace`, which a client needs that has only begun.
  TimeNs upload_lease = 0;
  TimeNs upload_grace = 0;
  Quotas* quotas = nullptr;  // of tenants, besides their shares; outlives the store
  // With memory of their own: what was uploaded lands on one of them at once. Outlive the store.
  std::vector<Device*> landing_devices;
  // Uploads whose data have at least so many bytes land while they come.
  std::uint64_t early_landing_bytes = 16 << 20;
  int upload_threads = 1;     // that copy and hash a chunk together, its stream's own among them
  bool makes_copies = false;  // see OperandStore::StartCopy()
};

// No handle is longer.
inline constexpr std::size_t kMaxHandleBytes = 64;
// The names that one operand may have: an answer tells all of them.
inline constexpr std::size_t kMaxNames = 1024;

// A client's way to call an operand: all but one are empty.
struct OperandKey {
  std::string handle;
  std::string digest;  // 32 bytes
  std::string name = {};
};

struct StoredInfo {
  std::uint64_t number = 0;  // in the order in which operands came
  Tenant tenant;
  std::string handle;
  std::string digest;              // empty: computed
  std::vector<std::string> names;  // sorted
  OperandForm form;
  std::uint64_t device_bytes = 0;
  TimeNs lease = 0;
  TimeNs lease_remaining = 0;
};

struct StoreStatistics {
  std::uint64_t residents = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t partial_uploads = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t limit_bytes = 0;
  std::uint64_t uploaded_bytes = 0;
  std::uint64_t repeated_bytes = 0;
  std::uint64_t downloaded_bytes = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  std::uint64_t device_bytes = 0;  // of residents, in the memory of devices, as they lie there
  // As in StoreTraffic.
  std::uint64_t landings = 0;
  std::uint64_t landed_bytes = 0;
  std::uint64_t moves_out = 0;
  std::uint64_t moved_out_bytes = 0;
  std::uint64_t fetched_bytes = 0;
  std::uint64_t copies = 0;      // of operands that other devices held, by StartCopy()
  std::uint64_t copy_bytes = 0;  // of device_bytes, those that another device has too
  std::uint64_t copies_dropped = 0;
  std::uint64_t copies_without_room = 0;  // that were wanted
};

// Operands that are to lie on one more device.
struct OperandCopy {
  std::vector<std::shared_ptr<StoredOperand>> operands;
  Device* device = nullptr;
  // Brings them there, which waits for copies. RESOURCE_EXHAUSTED: it has no room now.
  std::function<absl::Status()> place;
};

class OperandStore;

// Room for a result that a product will leave here. Dropping it gives the room back.
class PendingResult {
 public:
  // Takes memory for D on the device that will write it. RESOURCE_EXHAUSTED: it has none now. To
  // be called where BeginResult() was told of that device, which outlives this.
  absl::Status PlaceOn(Device* device);

  // The memory that the device writes D into, tightly packed; empty of one with memory of its own.
  const HostBuffer& memory() const { return memory_; }
  // D on a device with memory of its own; null before PlaceOn(), and on any other device.
  const std::shared_ptr<ResidentResult>& resident() const { return resident_; }

 private:
  friend class OperandStore;
  Tenant tenant_;
  OperandForm form_;
  TimeNs lease_ = 0;
  std::shared_ptr<StoreHold> hold_;  // kept by memory_ and resident_
  HostBuffer memory_;
  Device* device_ = nullptr;  // of resident_
  std::shared_ptr<ResidentResult> resident_;
};

// Thread-safe. Device and clock outlive the store; operands in use may outlive it.
class OperandStore {
 public:
  // `host`: the device whose AllocateResident() gives memory. `instance`: another number in
  // each process, so that no handle of an earlier one means something here.
  OperandStore(const StoreOptions& options, Device* host, const Clock* clock,
               std::uint32_t instance);
  ~OperandStore();

  // Takes over `all`, `tenant`, `address` and `upload_grace`. Operands and uploads that are there
  // stay, even where these allow less.
  void SetLimits(const StoreOptions& options);

  // One stream's part in an upload. Used by one thread at a time; dropping it leaves what came.
  class UploadStream {
   public:
    // Takes what is new in the chunk. Returns whether the operand is resident now. One that is to
    // be quantized never is: see AwaitEnd(). INVALID_ARGUMENT, RESOURCE_EXHAUSTED: see Upload;
    // INVALID_ARGUMENT also where the whole does not have the digest, and nothing is kept.
    absl::StatusOr<bool> Receive(const UploadChunk& chunk);
    // Where every byte is here and the operand is being quantized, has `done` called with the
    // outcome, on another thread. False: it is not, or no more; outcome() tells which.
    bool AwaitEnd(std::function<void(const absl::Status&)> done);
    // The outcome for an operand that is quantized. Nothing: it has not been yet, or is kept as it
    // comes.
    std::optional<absl::Status> outcome() const;
    // The stream's end, or that of quantizing. INVALID_ARGUMENT: bytes are missing.
    absl::Status End();
    // REQUIRES: resident() is true.
    const StoredInfo& info() const { return *info_; }
    bool resident() const { return info_.has_value(); }

   private:
    friend class OperandStore;
    OperandStore* store_ = nullptr;
    Tenant tenant_;
    std::uint64_t id_ = 0;
    TimeNs lease_ = 0;
    std::shared_ptr<Upload> upload_;  // null: it was here
    std::optional<StoredInfo> info_;
  };

  // `lease` absent: the default. `as` absent: kept as it comes. A second upload of a digest joins
  // the first one; one that is to be quantized joins those to be quantized so alone.
  // INVALID_ARGUMENT: the lease is over the limit, the operand larger than ever fits, or
  // another form than an earlier Begin of that digest said.
  // RESOURCE_EXHAUSTED: there is no room now.
  absl::StatusOr<std::unique_ptr<UploadStream>> BeginUpload(
      const Tenant& tenant, const Sha256Digest& digest, const OperandForm& form,
      std::optional<TimeNs> lease, const std::optional<StoredAs>& as = std::nullopt);

  // Nothing: it is wholly here, which counts as a use. Else what is missing of an upload that
  // has begun, as Upload::Missing() tells it; empty where none has.
  std::optional<std::vector<MissingRange>> FindMissing(const Tenant& tenant,
                                                       const std::string& digest);

  // The operand for a product: a use. NOT_FOUND with what is missing (missing.h); `field`
  // begins the message.
  absl::StatusOr<std::shared_ptr<StoredOperand>> Use(const Tenant& tenant, const OperandKey& key,
                                                     absl::string_view field);
  // As Use(), for a download.
  absl::StatusOr<std::shared_ptr<StoredOperand>> Read(const Tenant& tenant, const OperandKey& key);

  absl::StatusOr<StoredInfo> Get(const Tenant& tenant, const OperandKey& key);
  // Up to `count` residents of the tenant, of all without one, that came after the one of that
  // number (0: from the first), and the number to go on from; 0: there are no more.
  std::pair<std::vector<StoredInfo>, std::uint64_t> List(const std::optional<Tenant>& tenant,
                                                         std::uint64_t after, std::size_t count);
  // Forgets the operand; by one of several names, that name alone.
  absl::Status Release(const Tenant& tenant, const OperandKey& key);

  struct Named {
    StoredInfo info;
    std::string replaced_handle;  // of the operand that had the name; empty: none had it
  };
  // Gives the operand one more name; with `replace` another operand loses it. Each name counts as
  // an operand without bytes. NOT_FOUND; ALREADY_EXISTS; INVALID_ARGUMENT: it has kMaxNames;
  // RESOURCE_EXHAUSTED: as BeginUpload().
  // REQUIRES: CheckOperandName(name) (base/text/operand_name.h).
  absl::StatusOr<Named> SetName(const Tenant& tenant, const OperandKey& key,
                                const std::string& name, bool replace);
  absl::StatusOr<TimeNs> Renew(const Tenant& tenant, const OperandKey& key,
                               std::optional<TimeNs> lease);
  // Gives it a lease that does not end, whatever the options allow: Renew() ends it. NOT_FOUND.
  absl::Status Pin(const Tenant& tenant, const OperandKey& key);

  // Room for D, laid out tightly, that `device` writes; one with memory of its own has yet to give
  // some, see PendingResult::PlaceOn(). Errors as BeginUpload().
  absl::StatusOr<std::unique_ptr<PendingResult>> BeginResult(const Tenant& tenant,
                                                             const MatrixLayout& d,
                                                             std::optional<TimeNs> lease,
                                                             Device* device);
  // Keeps a result that is whole. Returns its handle, which is valid from now on.
  std::string Keep(std::unique_ptr<PendingResult> result);

  // Evicts one operand that has memory of the device. False: none may go.
  bool EvictFrom(const Device* device);

  // Makes room on the device, and loses nothing. Drops the largest copy there that is in no use;
  // without one, has an upload that lands there wait in host memory; without that, brings the
  // largest operand that has memory of the device and is in no use to the host, whatever its lease.
  // Returns the bytes that the device has back; nothing: there is none, or the host has no memory.
  // REQUIRES: the device has memory of its own.
  std::optional<std::uint64_t> MoveOutOf(Device* device);

  bool makes_copies() const { return options_.makes_copies; }
  // Has the copy made on a thread of the store's; its operands' demand begins anew then. It takes
  // no memory that anything else has, and counts against no tenant: no client asked for it. False:
  // another copy is under way, or there is no room, and nothing is done. REQUIRES: makes_copies().
  bool StartCopy(OperandCopy copy);
  void WaitForCopies() { copier_.WaitUntilIdle(); }

  StoreStatistics statistics() const;
  // Counts what is kept, by whose it is.
  const Ledger& ledger() const { return budget_.ledger(); }
  void CountDownloaded(std::uint64_t bytes);

 private:
  struct Entry {
    Tenant tenant;
    std::string digest;  // empty: computed; of an upload that is to be quantized, see KeyOf()
    std::string handle;
    std::shared_ptr<Upload> upload;          // one of both
    std::shared_ptr<StoredOperand> operand;  // resident
    // Each with its place among the tenant's operands. REQUIRES: it is resident.
    std::map<std::string, std::shared_ptr<StoreHold>> names;
  };
  using Entries = std::map<std::uint64_t, Entry>;
  // Entries that left the store; their memory is given back after the lock.
  using Garbage = std::vector<Entry>;

  absl::StatusOr<TimeNs> CheckLease(std::optional<TimeNs> lease) const;
  // Bytes of the tenant's, by evicting where it must. `allocate` takes the memory itself, which is
  // to keep the hold.
  absl::StatusOr<std::shared_ptr<StoreHold>> MakeRoom(
      const Tenant& tenant, std::uint64_t bytes, const std::function<absl::Status()>& allocate);
  std::string HandleOf(std::uint64_t id) const;
  absl::Status NotFound(const OperandKey& key, absl::string_view field) const;
  // `hold`: of a name that no operand has.
  Named GiveNameLocked(Entries::iterator entry, const std::string& name,
                       std::shared_ptr<StoreHold> hold) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An upload that is whole. `info`: of what is resident now; null: nobody asks.
  absl::Status FinishUpload(std::uint64_t id, TimeNs lease, const std::shared_ptr<Upload>& upload,
                            std::optional<StoredInfo>* info);
  // Makes a finished upload resident, or finds it so already. The number of what is resident.
  std::uint64_t MakeResidentLocked(Entries::iterator entry, Upload::Finished finished, TimeNs lease,
                                   Garbage* garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings the data to the device that has most room, as they lie, which is what most uses want;
  // they wait in host memory where none has room without moving others out.
  void LandUpload(StoredOperand* operand) const;
  // Lands an upload on a device while its data come. Null: they land when they are whole.
  std::shared_ptr<EarlyLanding> LandEarly(const OperandForm& form, const HostPiece& data);
  // Gives an upload that lands there up. The bytes that the device has back; nothing: there is
  // none.
  std::optional<std::uint64_t> DropEarlyLandingOn(const Device* device);
  void FillInfo(UploadStream* stream);
  TimeNs UploadLeaseOf(const Upload& upload) const;
  void MakeCopy(const OperandCopy& copy);
  void CountWithoutRoom(const OperandCopy& copy);
  std::optional<std::uint64_t> DropCopyFrom(const Device* device);

  Entries::iterator FindLocked(const Tenant& tenant, const OperandKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entries::iterator FindResidentLocked(const Tenant& tenant, const OperandKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the stream part of what is there; false: nothing is.
  absl::StatusOr<bool> JoinLocked(const Tenant& tenant, const OperandKey& key,
                                  const OperandForm& form, UploadStream* stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t AddLocked(Entry entry, TimeNs lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveLocked(Entries::iterator entry, Garbage* garbage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EvictLocked(const std::function<bool(const Entry&)>& may_go, Garbage* garbage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StoredInfo InfoLocked(std::uint64_t id, const Entry& entry) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StoreOptions options_;  // but for what SetLimits() takes over
  std::atomic<TimeNs> upload_grace_;
  Device* const host_;
  const Clock* const clock_;
  const std::uint32_t instance_;
  StoreBudget budget_;
  const std::shared_ptr<StoreTraffic> traffic_ = std::make_shared<StoreTraffic>();

  mutable AdaptiveMutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  // The tenant is part of the keys, so that what is another's takes as long to miss as what nobody
  // has.
  std::map<std::pair<Tenant, std::string>, std::uint64_t> digests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<Tenant, std::string>, std::uint64_t> handles_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<Tenant, std::string>, std::uint64_t> names_ ABSL_GUARDED_BY(mutex_);
  LeaseList leases_ ABSL_GUARDED_BY(mutex_);
  StoreStatistics counts_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  ThreadExecutor upload_helpers_;
  // Last: they use all else.
  KeyedPool lander_{1};  // of early landings
  Converter converter_;
  Copier copier_;
};

}  // namespace gemmd
