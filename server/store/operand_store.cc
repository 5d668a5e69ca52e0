#include "server/store/operand_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "text/duration.h"
#include "text/quoted.h"

namespace gemmd {
namespace {

// Memory for each plane, or for none.
absl::Status Allocate(const OperandForm& form, Device* host, Upload::Memory* memory) {
  *memory = {};
  for (std::size_t i = 0; i < kStoredPlanes; ++i) {
    const MatrixLayout* const layout = form.plane(static_cast<StoredPlane>(i));
    if (layout == nullptr) continue;
    absl::StatusOr<HostPiece> piece = host->AllocateResident(layout->size_bytes());
    if (!piece.ok()) {
      *memory = {};
      return piece.status();
    }
    (*memory)[i] = {*std::move(piece)};
  }
  return absl::OkStatus();
}

// By which an upload is found: of one that is to be quantized by no digest that anybody can name.
std::string KeyOf(const Sha256Digest& digest, const std::optional<StoredAs>& as) {
  std::string key = ToBytes(digest);
  if (as.has_value())
    key += ToBytes(DigestOf(as->form, std::vector<std::vector<Sha256Digest>>(kStoredPlanes)));
  return key;
}

// A product that uses the plane as A, K-major as it lies.
Problem AsFactor(const MatrixLayout& data) {
  Problem problem;
  problem.a = data;
  problem.transpose_a = data.order == Order::kColumnMajor;
  problem.m = data.outer();
  problem.n = 1;
  problem.k = data.inner();
  problem.b = {data.type, problem.k, 1, Order::kRowMajor, 1};
  problem.d = {data.type, problem.m, 1, Order::kRowMajor, 1};
  problem.c = problem.d;
  return problem;
}

}  // namespace

OperandStore::OperandStore(const StoreOptions& options, Device* host, const Clock* clock,
                           std::uint32_t instance)
    : options_(options),
      host_(host),
      clock_(clock),
      instance_(instance),
      budget_(std::make_shared<StoreBudget>(options.all, options.tenant, options.quotas)) {}

OperandStore::~OperandStore() = default;

absl::StatusOr<TimeNs> OperandStore::CheckLease(std::optional<TimeNs> lease) const {
  const TimeNs value = lease.value_or(options_.default_lease);
  if (value >= 0 && value <= options_.max_lease) return value;
  return absl::InvalidArgumentError(absl::StrCat(
      "lease is ", DurationText(value), "; it must be 0s to ", DurationText(options_.max_lease)));
}

absl::StatusOr<StoreHold> OperandStore::MakeRoom(const Tenant& tenant, std::uint64_t bytes,
                                                 const std::function<absl::Status()>& allocate) {
  while (true) {
    StoreBudget::Limit limit = StoreBudget::Limit::kNone;
    absl::StatusOr<StoreHold> hold = budget_->Reserve(tenant, bytes, &limit);
    absl::Status status = hold.status();
    if (status.ok()) {
      status = allocate();
      if (status.ok()) return hold;
      hold->Release();
    }
    if (absl::IsResourceExhausted(status)) {
      Garbage garbage;
      const MutexLock lock(mutex_);
      const bool has_room = EvictLocked(
          [&](const Entry& entry) {
            return limit != StoreBudget::Limit::kTenant || entry.tenant == tenant;
          },
          &garbage);
      if (has_room) continue;
    }
    if (options_.quotas != nullptr) options_.quotas->Report(tenant, status);
    return status;
  }
}

absl::StatusOr<std::unique_ptr<OperandStore::Session>> OperandStore::BeginUpload(
    const Tenant& tenant, const Sha256Digest& digest, const OperandForm& form,
    std::optional<TimeNs> lease, const std::optional<StoredAs>& as) {
  const absl::StatusOr<TimeNs> checked = CheckLease(lease);
  if (!checked.ok()) return checked.status();
  auto session = std::make_unique<Session>();
  session->store_ = this;
  session->tenant_ = tenant;
  session->lease_ = *checked;
  const OperandKey key{{}, KeyOf(digest, as)};
  {
    const MutexLock lock(mutex_);
    const absl::StatusOr<bool> joined = JoinLocked(tenant, key, form, session.get());
    if (!joined.ok()) return joined.status();
    if (*joined) return session;
  }
  Upload::Memory memory;
  std::optional<Upload::Kept> kept;
  if (as.has_value()) kept = Upload::Kept{*as, {}};
  const std::uint64_t bytes = form.size_bytes() + (as.has_value() ? as->form.size_bytes() : 0);
  absl::StatusOr<StoreHold> hold = MakeRoom(tenant, bytes, [&] {
    absl::Status status = Allocate(form, host_, &memory);
    if (status.ok() && kept.has_value()) status = Allocate(as->form, host_, &kept->memory);
    if (!status.ok()) memory = {};
    return status;
  });
  if (!hold.ok()) return hold.status();
  const MutexLock lock(mutex_);
  // Another stream may have begun the same meanwhile.
  const absl::StatusOr<bool> joined = JoinLocked(tenant, key, form, session.get());
  if (!joined.ok()) return joined.status();
  if (*joined) return session;
  session->upload_ =
      std::make_shared<Upload>(form, digest, std::move(memory), *std::move(hold), std::move(kept));
  session->id_ =
      AddLocked({tenant, key.digest, {}, session->upload_, nullptr}, options_.upload_lease);
  return session;
}

absl::StatusOr<bool> OperandStore::JoinLocked(const Tenant& tenant, const OperandKey& key,
                                              const OperandForm& form, Session* session) {
  const auto found = FindLocked(tenant, key);
  if (found == entries_.end()) return false;
  Entry& entry = found->second;
  const OperandForm& earlier =
      entry.upload != nullptr ? entry.upload->form() : entry.operand->form();
  if (!(earlier == form)) {
    return absl::InvalidArgumentError(
        "begin.operand is not what an earlier upload of this digest began with");
  }
  const TimeNs now = clock_->Now();
  session->id_ = found->first;
  session->upload_ = entry.upload;
  leases_.Use(found->first, now);
  if (entry.operand != nullptr) {
    if (session->lease_ > leases_.lease(found->first)) {
      leases_.Renew(found->first, session->lease_, now);
    }
    session->info_ = InfoLocked(found->first, entry);
  }
  return true;
}

absl::StatusOr<bool> OperandStore::Session::Receive(const UploadChunk& chunk) {
  if (resident()) return true;
  const absl::StatusOr<Upload::Received> received = upload_->Receive(chunk);
  if (!received.ok()) return received.status();
  {
    const MutexLock lock(store_->mutex_);
    store_->counts_.uploaded_bytes += received->new_bytes;
    store_->counts_.repeated_bytes += received->repeated_bytes;
    const auto found = store_->entries_.find(id_);
    if (found != store_->entries_.end()) store_->leases_.Use(id_, store_->clock_->Now());
  }
  if (received->is_last && upload_->is_converted()) {
    const std::uint64_t bytes = upload_->form().size_bytes();
    store_->converter_.Post(
        tenant_, bytes, [store = store_, id = id_, lease = lease_, upload = upload_] {
          store->FinishUpload(id, lease, upload, nullptr).IgnoreError();  // those who wait are told
        });
    return false;
  }
  if (received->is_last) {
    if (absl::Status s = store_->FinishUpload(id_, lease_, upload_, &info_); !s.ok()) return s;
  } else {
    store_->FillInfo(this);
  }
  return resident();
}

bool OperandStore::Session::AwaitEnd(std::function<void(const absl::Status&)> done) {
  if (resident() || !upload_->is_converted()) return false;
  return upload_->AwaitEnd(std::move(done));
}

std::optional<absl::Status> OperandStore::Session::outcome() const {
  if (upload_ == nullptr || !upload_->is_converted()) return std::nullopt;
  return upload_->outcome();
}

absl::Status OperandStore::Session::End() {
  if (resident()) return absl::OkStatus();
  // Others may be copying, or finishing, the last bytes.
  upload_->WaitUntilStill();
  store_->FillInfo(this);
  if (resident()) return absl::OkStatus();
  const std::vector<MissingRange> missing = upload_->Missing();
  if (missing.empty()) {
    return absl::InvalidArgumentError(
        "the bytes did not have the digest, or the operand was released meanwhile");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the upload ended with ", upload_->received_bytes(), " of ",
                   upload_->form().size_bytes(), " bytes; the next one missing is ",
                   missing.front().bytes.begin, " of ", Name(missing.front().plane)));
}

void OperandStore::LandUpload(StoredOperand* operand) const {
  if (!operand->form().may_land()) return;
  const auto free_bytes = [](Device* device) { return device->memory().usage().free_bytes(); };
  const auto device =
      std::max_element(options_.landing_devices.begin(), options_.landing_devices.end(),
                       [&](Device* x, Device* y) { return free_bytes(x) < free_bytes(y); });
  if (device == options_.landing_devices.end()) return;
  // The first use lands it where this cannot, and says why if that fails too.
  std::uint64_t landed_bytes = 0;
  operand->PlaceOn(*device, AsFactor(operand->form().data), WorkPlane::kA, &landed_bytes)
      .status()
      .IgnoreError();
}

absl::Status OperandStore::FinishUpload(std::uint64_t id, TimeNs lease,
                                        const std::shared_ptr<Upload>& upload,
                                        std::optional<StoredInfo>* info) {
  absl::StatusOr<Upload::Finished> finished = upload->Finish(traffic_);
  absl::Status status = finished.status();
  std::uint64_t resident_id = 0;
  std::shared_ptr<StoredOperand> whole;
  {
    Garbage garbage;
    const MutexLock lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
      status.Update(absl::ResourceExhaustedError("the upload was dropped as its last bytes came"));
    } else if (!finished.ok()) {
      RemoveLocked(found, &garbage);
    } else {
      resident_id = MakeResidentLocked(found, *std::move(finished), lease, &garbage);
      const Entry& resident = entries_.at(resident_id);
      whole = resident.operand;
      if (info != nullptr) *info = InfoLocked(resident_id, resident);
    }
  }
  upload->SetEnded(status, resident_id);
  if (whole != nullptr) LandUpload(whole.get());
  return status;
}

std::uint64_t OperandStore::MakeResidentLocked(Entries::iterator entry, Upload::Finished finished,
                                               TimeNs lease, Garbage* garbage) {
  std::uint64_t id = entry->first;
  Entry& made = entry->second;
  const std::string digest = ToBytes(finished.digest);
  if (digest != made.digest) {  // it was quantized
    const auto same = FindLocked(made.tenant, {{}, digest});
    if (same != entries_.end() && same->second.operand != nullptr) {
      id = same->first;
      RemoveLocked(entry, garbage);
      if (lease > leases_.lease(id)) leases_.Renew(id, lease, clock_->Now());
      return id;
    }
    // Somebody who uploads the same in this form finds it here, and need not go on.
    if (same != entries_.end()) RemoveLocked(same, garbage);
    digests_.erase({made.tenant, made.digest});
    digests_[{made.tenant, digest}] = id;
    made.digest = digest;
  }
  made.operand = std::move(finished.operand);
  made.upload = nullptr;
  made.handle = HandleOf(id);
  handles_[{made.tenant, made.handle}] = id;
  leases_.Renew(id, lease, clock_->Now());
  return id;
}

std::string OperandStore::HandleOf(std::uint64_t id) const {
  return absl::StrCat(absl::Hex(instance_, absl::kZeroPad8), "-", id);
}

void OperandStore::FillInfo(Session* session) {
  const std::uint64_t resident_id = session->upload_->resident_id();
  const MutexLock lock(mutex_);
  const auto found = entries_.find(resident_id != 0 ? resident_id : session->id_);
  if (found == entries_.end() || found->second.operand == nullptr) return;
  session->info_ = InfoLocked(found->first, found->second);
}

std::optional<std::vector<MissingRange>> OperandStore::FindMissing(const Tenant& tenant,
                                                                   const std::string& digest) {
  const MutexLock lock(mutex_);
  const auto found = FindLocked(tenant, {{}, digest});
  if (found == entries_.end()) return std::vector<MissingRange>();
  leases_.Use(found->first, clock_->Now());
  if (found->second.operand != nullptr) return std::nullopt;
  if (found->second.upload->received_bytes() == 0) return std::vector<MissingRange>();
  return found->second.upload->Missing();
}

absl::StatusOr<std::shared_ptr<StoredOperand>> OperandStore::Use(const Tenant& tenant,
                                                                 const OperandKey& key,
                                                                 absl::string_view field) {
  const MutexLock lock(mutex_);
  const auto found = FindResidentLocked(tenant, key);
  if (found == entries_.end()) {
    ++counts_.misses;
    return NotFound(key, field);
  }
  ++counts_.hits;
  leases_.Use(found->first, clock_->Now());
  return found->second.operand;
}

absl::StatusOr<std::shared_ptr<StoredOperand>> OperandStore::Read(const Tenant& tenant,
                                                                  const OperandKey& key) {
  const MutexLock lock(mutex_);
  const auto found = FindResidentLocked(tenant, key);
  if (found == entries_.end()) return NotFound(key, {});
  leases_.Use(found->first, clock_->Now());
  return found->second.operand;
}

absl::StatusOr<StoredInfo> OperandStore::Get(const Tenant& tenant, const OperandKey& key) {
  const MutexLock lock(mutex_);
  const auto found = FindResidentLocked(tenant, key);
  if (found == entries_.end()) return NotFound(key, {});
  return InfoLocked(found->first, found->second);
}

std::pair<std::vector<StoredInfo>, std::uint64_t> OperandStore::List(const Tenant& tenant,
                                                                     std::uint64_t after,
                                                                     std::size_t count) {
  const MutexLock lock(mutex_);
  std::vector<StoredInfo> infos;
  std::uint64_t last = 0;
  for (auto each = entries_.upper_bound(after); each != entries_.end(); ++each) {
    const Entry& entry = each->second;
    if (entry.tenant != tenant || entry.operand == nullptr) continue;
    if (infos.size() == count) return {std::move(infos), last};
    infos.push_back(InfoLocked(each->first, entry));
    last = each->first;
  }
  return {std::move(infos), 0};
}

absl::Status OperandStore::Release(const Tenant& tenant, const OperandKey& key) {
  Garbage garbage;
  const MutexLock lock(mutex_);
  const auto found = FindLocked(tenant, key);
  if (found == entries_.end()) return NotFound(key, {});
  RemoveLocked(found, &garbage);
  return absl::OkStatus();
}

absl::StatusOr<TimeNs> OperandStore::Renew(const Tenant& tenant, const OperandKey& key,
                                           std::optional<TimeNs> lease) {
  const MutexLock lock(mutex_);
  const auto found = FindResidentLocked(tenant, key);
  if (found == entries_.end()) return NotFound(key, {});
  const absl::StatusOr<TimeNs> checked =
      CheckLease(lease.has_value() ? lease : leases_.lease(found->first));
  if (!checked.ok()) return checked.status();
  leases_.Renew(found->first, *checked, clock_->Now());
  return *checked;
}

absl::StatusOr<std::unique_ptr<PendingResult>> OperandStore::BeginResult(
    const Tenant& tenant, const MatrixLayout& d, std::optional<TimeNs> lease, Device* device) {
  const absl::StatusOr<TimeNs> checked = CheckLease(lease);
  if (!checked.ok()) return checked.status();
  auto result = std::make_unique<PendingResult>();
  result->tenant_ = tenant;
  result->form_.data = d;
  result->lease_ = *checked;
  absl::StatusOr<StoreHold> hold = MakeRoom(tenant, d.size_bytes(), [&] {
    if (!device->uses_host_memory()) return absl::OkStatus();
    absl::StatusOr<HostPiece> memory = device->AllocateResident(d.size_bytes());
    if (!memory.ok()) return memory.status();
    result->memory_ = {*std::move(memory)};
    return absl::OkStatus();
  });
  if (!hold.ok()) return hold.status();
  result->hold_ = *std::move(hold);
  return result;
}

absl::Status PendingResult::PlaceOn(Device* device) {
  absl::StatusOr<std::shared_ptr<ResidentResult>> resident = device->AllocateKept(form_.data);
  if (!resident.ok()) return resident.status();
  device_ = device;
  resident_ = *std::move(resident);
  return absl::OkStatus();
}

std::string OperandStore::Keep(std::unique_ptr<PendingResult> result) {
  PendingResult& kept = *result;
  auto operand =
      kept.resident_ != nullptr
          ? std::make_shared<StoredOperand>(kept.form_, kept.device_, std::move(kept.resident_),
                                            std::move(kept.hold_), traffic_)
          : std::make_shared<StoredOperand>(kept.form_,
                                            StoredOperand::Memory{std::move(kept.memory_)},
                                            std::move(kept.hold_), traffic_);
  const MutexLock lock(mutex_);
  const std::uint64_t id =
      AddLocked({kept.tenant_, {}, {}, nullptr, std::move(operand)}, kept.lease_);
  return entries_.at(id).handle;
}

bool OperandStore::EvictFrom(const Device* device) {
  Garbage garbage;
  const MutexLock lock(mutex_);
  return EvictLocked(
      [device](const Entry& entry) {
        if (device->uses_host_memory()) return true;
        return entry.operand != nullptr && entry.operand->device_bytes(*device) != 0;
      },
      &garbage);
}

std::optional<std::uint64_t> OperandStore::MoveOutOf(Device* device) {
  std::shared_ptr<StoredOperand> largest;
  {
    const MutexLock lock(mutex_);
    std::uint64_t most = 0;
    for (const auto& [id, entry] : entries_) {
      // As in EvictLocked(): a count of one stays one. Taking the reference makes it two, so
      // that no other thread moves the same.
      if (entry.operand == nullptr || entry.operand.use_count() != 1) continue;
      const std::uint64_t bytes = entry.operand->device_bytes(*device);
      if (bytes <= most) continue;
      most = bytes;
      largest = entry.operand;
    }
  }
  if (largest == nullptr) return std::nullopt;
  const absl::StatusOr<std::uint64_t> freed_bytes = largest->MoveOut(device);
  if (!freed_bytes.ok()) return std::nullopt;
  return *freed_bytes;
}

StoreStatistics OperandStore::statistics() const {
  const MutexLock lock(mutex_);
  StoreStatistics statistics = counts_;
  for (const auto& [id, entry] : entries_) {
    if (entry.operand == nullptr) {
      ++statistics.partial_uploads;
    } else {
      ++statistics.residents;
      statistics.resident_bytes += entry.operand->size_bytes();
      statistics.device_bytes += entry.operand->device_bytes();
    }
  }
  statistics.landings = traffic_->landings;
  statistics.landed_bytes = traffic_->landed_bytes;
  statistics.moves_out = traffic_->moves_out;
  statistics.moved_out_bytes = traffic_->moved_out_bytes;
  statistics.fetched_bytes = traffic_->fetched_bytes;
  statistics.reserved_bytes = budget_->used_bytes();
  statistics.limit_bytes = budget_->limit_bytes();
  return statistics;
}

void OperandStore::CountDownloaded(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  counts_.downloaded_bytes += bytes;
}

absl::Status OperandStore::NotFound(const OperandKey& key, absl::string_view field) const {
  const std::string prefix = field.empty() ? std::string() : absl::StrCat(field, ".");
  if (key.digest.empty()) {
    return WithMissing(absl::NotFoundError(absl::StrCat(prefix, "handle is ", Quoted(key.handle),
                                                        ": the server has no such operand")),
                       {{}, {key.handle}});
  }
  return WithMissing(
      absl::NotFoundError(absl::StrCat(prefix, "digest is ", absl::BytesToHexString(key.digest),
                                       ": the server has no such operand; upload it")),
      {{key.digest}, {}});
}

OperandStore::Entries::iterator OperandStore::FindLocked(const Tenant& tenant,
                                                         const OperandKey& key) {
  if (key.digest.empty()) {
    const auto found = handles_.find({tenant, key.handle});
    return found == handles_.end() ? entries_.end() : entries_.find(found->second);
  }
  const auto found = digests_.find({tenant, key.digest});
  return found == digests_.end() ? entries_.end() : entries_.find(found->second);
}

OperandStore::Entries::iterator OperandStore::FindResidentLocked(const Tenant& tenant,
                                                                 const OperandKey& key) {
  const auto found = FindLocked(tenant, key);
  return found != entries_.end() && found->second.operand == nullptr ? entries_.end() : found;
}

std::uint64_t OperandStore::AddLocked(Entry entry, TimeNs lease) {
  const std::uint64_t id = next_id_++;
  if (!entry.digest.empty()) digests_[{entry.tenant, entry.digest}] = id;
  if (entry.operand != nullptr) {
    entry.handle = HandleOf(id);
    handles_[{entry.tenant, entry.handle}] = id;
  }
  entries_.emplace(id, std::move(entry));
  leases_.Add(id, lease, clock_->Now());
  return id;
}

void OperandStore::RemoveLocked(Entries::iterator entry, Garbage* garbage) {
  const std::uint64_t id = entry->first;
  Entry& gone = entry->second;
  if (!gone.digest.empty()) digests_.erase({gone.tenant, gone.digest});
  if (!gone.handle.empty()) handles_.erase({gone.tenant, gone.handle});
  leases_.Remove(id);
  // Streams may still hold it: it gives its memory back nevertheless.
  if (gone.upload != nullptr) gone.upload->Abandon();
  garbage->push_back(std::move(gone));
  entries_.erase(entry);
}

bool OperandStore::EvictLocked(const std::function<bool(const Entry&)>& may_go, Garbage* garbage) {
  const std::optional<std::uint64_t> victim = leases_.OldestUnleased(
      clock_->Now(), [&](std::uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        const Entry& entry = entries_.at(id);
        // Dropping what a product uses, or what is being quantized, would give nothing back.
        // References are taken under this lock, so a count of one stays one.
        const bool is_used = entry.operand != nullptr ? entry.operand.use_count() != 1
                                                      : entry.upload->is_finishing();
        return !is_used && may_go(entry);
      });
  if (!victim.has_value()) return false;
  RemoveLocked(entries_.find(*victim), garbage);
  ++counts_.evictions;
  return true;
}

StoredInfo OperandStore::InfoLocked(std::uint64_t id, const Entry& entry) const {
  StoredInfo info;
  info.handle = entry.handle;
  info.digest = entry.digest;
  info.form = entry.operand->form();
  info.device_bytes =
      host_->uses_host_memory() ? entry.operand->size_bytes() : entry.operand->device_bytes();
  info.lease = leases_.lease(id);
  info.lease_remaining = leases_.Remaining(id, clock_->Now());
  return info;
}

}  // namespace gemmd
