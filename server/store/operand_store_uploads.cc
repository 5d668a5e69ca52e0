// Uploads of a store, from their begin until they are operands.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/keep_with.h"
#include "server/store/operand_store.h"

namespace gemmd {
namespace {

// Memory for each plane, or for none.
absl::Status Allocate(const OperandForm& form, Device* host, Upload::Memory* memory) {
  *memory = {};
  for (const PlaneName each : kPlaneNames) {
    const MatrixLayout* const layout = form.plane(each);
    if (layout == nullptr) continue;
    absl::StatusOr<HostPiece> piece = host->AllocateResident(layout->size_bytes());
    if (!piece.ok()) {
      *memory = {};
      return piece.status();
    }
    (*memory)[each] = {*std::move(piece)};
  }
  return absl::OkStatus();
}

void KeepHold(const std::shared_ptr<StoreHold>& hold, Upload::Memory* memory) {
  for (const PlaneName each : kPlaneNames) {
    for (HostPiece& piece : (*memory)[each]) piece = KeepWith(hold, std::move(piece));
  }
}

// The key by which an upload is found. No digest that anybody can name finds one that is to be
// quantized.
std::string KeyOf(const Sha256Digest& digest, const std::optional<StoredAs>& as) {
  std::string key = ToBytes(digest);
  if (as.has_value()) key += ToBytes(DigestOf(as->form, {}));
  return key;
}

// A product that uses the operand as A, K-major as it lies. It carries the scaling's type, which
// decides how codes land, not the layout of scales.
Problem AsFactor(const OperandForm& form) {
  const MatrixLayout& data = form.data;
  Problem problem;
  problem.a = data;
  problem.transpose_a = data.order == Order::kColumnMajor;
  problem.m = data.outer();
  problem.n = 1;
  problem.k = data.inner();
  problem.b = {data.type, problem.k, 1, Order::kRowMajor, 1};
  problem.d = {data.type, problem.m, 1, Order::kRowMajor, 1};
  problem.c = problem.d;
  if (form.scales.has_value()) {
    problem.a_scaling = Scaling::kVector;
    problem.a_scaling.type = form.scales->type;
  }
  if (form.blocks.has_value()) {
    problem.a_scaling.block_k = static_cast<std::uint16_t>(form.blocks->block_k);
    problem.a_scaling.block_lines = static_cast<std::uint16_t>(form.blocks->block_lines);
  }
  problem.a_scaling.has_zero_points = form.zero_points.has_value();
  problem.a_scaling.has_tensor_scale = form.tensor_scale.has_value();
  problem.a_scaling.has_offsets = form.offsets.has_value();
  return problem;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OperandStore::UploadStream>> OperandStore::BeginUpload(
    const Tenant& tenant, const Sha256Digest& digest, const OperandForm& form,
    std::optional<TimeNs> lease, const std::optional<StoredAs>& as) {
  const absl::StatusOr<TimeNs> checked = CheckLease(lease);
  if (!checked.ok()) return checked.status();
  auto stream = std::make_unique<UploadStream>();
  stream->store_ = this;
  stream->tenant_ = tenant;
  stream->lease_ = *checked;
  const OperandKey key{{}, KeyOf(digest, as)};
  {
    const MutexLock lock(mutex_);
    const absl::StatusOr<bool> joined = JoinLocked(tenant, key, form, stream.get());
    if (!joined.ok()) return joined.status();
    if (*joined) return stream;
  }
  Upload::Memory memory;
  std::optional<Upload::Kept> kept;
  if (as.has_value()) kept = Upload::Kept{*as, {}};
  const std::uint64_t bytes =
      form.size_bytes() + form.order_bytes() + (as.has_value() ? as->form.size_bytes() : 0);
  absl::StatusOr<std::shared_ptr<StoreHold>> hold = MakeRoom(tenant, bytes, [&] {
    absl::Status status = Allocate(form, host_, &memory);
    if (status.ok() && kept.has_value()) status = Allocate(as->form, host_, &kept->memory);
    if (!status.ok()) memory = {};
    return status;
  });
  if (!hold.ok()) return hold.status();
  KeepHold(*hold, &memory);
  if (kept.has_value()) KeepHold(*hold, &kept->memory);
  std::shared_ptr<EarlyLanding> early;
  if (!as.has_value()) early = LandEarly(form, memory[PlaneName::kData].front());
  const MutexLock lock(mutex_);
  // Another stream may have begun the same meanwhile.
  const absl::StatusOr<bool> joined = JoinLocked(tenant, key, form, stream.get());
  if (!joined.ok()) return joined.status();
  if (*joined) return stream;
  stream->upload_ = std::make_shared<Upload>(form, digest, std::move(memory), *std::move(hold),
                                             &upload_helpers_, std::move(kept), std::move(early));
  const TimeNs upload_lease = UploadLeaseOf(*stream->upload_);
  stream->id_ = AddLocked({tenant, key.digest, {}, stream->upload_, nullptr, {}}, upload_lease);
  return stream;
}

absl::StatusOr<bool> OperandStore::JoinLocked(const Tenant& tenant, const OperandKey& key,
                                              const OperandForm& form, UploadStream* stream) {
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
  stream->id_ = found->first;
  stream->upload_ = entry.upload;
  if (entry.operand != nullptr) {
    leases_.Use(found->first, now);
    if (stream->lease_ > leases_.lease(found->first)) {
      leases_.Renew(found->first, stream->lease_, now);
    }
    stream->info_ = InfoLocked(found->first, entry);
  }
  return true;
}

absl::StatusOr<bool> OperandStore::UploadStream::Receive(const UploadChunk& chunk) {
  if (resident()) return true;
  const absl::StatusOr<Upload::Received> received = upload_->Receive(chunk);
  if (!received.ok()) return received.status();
  {
    const MutexLock lock(store_->mutex_);
    store_->counts_.uploaded_bytes += received->new_bytes;
    store_->counts_.repeated_bytes += received->repeated_bytes;
    const auto found = store_->entries_.find(id_);
    if (received->new_bytes != 0 && found != store_->entries_.end() &&
        found->second.upload != nullptr) {
      store_->leases_.Renew(id_, store_->UploadLeaseOf(*upload_), store_->clock_->Now());
    }
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

// Room that is kept for what came is worth what came.
TimeNs OperandStore::UploadLeaseOf(const Upload& upload) const {
  const double part = static_cast<double>(upload.received_bytes()) /
                      static_cast<double>(upload.form().size_bytes());
  const auto earned = static_cast<TimeNs>(static_cast<double>(options_.upload_lease) * part);
  return std::max(earned, std::min(upload_grace_.load(), options_.upload_lease));
}

bool OperandStore::UploadStream::AwaitEnd(std::function<void(const absl::Status&)> done) {
  if (resident() || !upload_->is_converted()) return false;
  return upload_->AwaitEnd(std::move(done));
}

std::optional<absl::Status> OperandStore::UploadStream::outcome() const {
  if (upload_ == nullptr || !upload_->is_converted()) return std::nullopt;
  return upload_->outcome();
}

absl::Status OperandStore::UploadStream::End() {
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

std::shared_ptr<EarlyLanding> OperandStore::LandEarly(const OperandForm& form,
                                                      const HostPiece& data) {
  // Several batches are brought before the last byte comes, and each is worth waking a thread for.
  constexpr std::uint64_t kBatches = 4;
  if (options_.landing_devices.empty() || data.size_bytes < options_.early_landing_bytes) {
    return nullptr;
  }
  return std::make_shared<EarlyLanding>(options_.landing_devices, AsFactor(form), WorkPlane::kA,
                                        data, options_.early_landing_bytes / kBatches, &lander_);
}

std::optional<std::uint64_t> OperandStore::DropEarlyLandingOn(const Device* device) {
  std::vector<std::shared_ptr<EarlyLanding>> landings;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      if (entry.upload == nullptr) continue;
      std::shared_ptr<EarlyLanding> early = entry.upload->early_landing();
      if (early != nullptr && early->device() == device) landings.push_back(std::move(early));
    }
  }
  for (const auto& early : landings) {
    if (const std::uint64_t bytes = early->Drop(); bytes != 0) return bytes;
  }
  return std::nullopt;
}

void OperandStore::LandUpload(StoredOperand* operand) const {
  Device* const device = RoomiestOf(options_.landing_devices);
  if (device == nullptr || operand->holder() != nullptr) return;
  // The first use lands it where this cannot, and says why if that fails too.
  std::uint64_t landed_bytes = 0;
  operand->PlaceOn(device, AsFactor(operand->form()), WorkPlane::kA, &landed_bytes)
      .status()
      .IgnoreError();
}

absl::Status OperandStore::FinishUpload(std::uint64_t id, TimeNs lease,
                                        const std::shared_ptr<Upload>& upload,
                                        std::optional<StoredInfo>* info) {
  absl::StatusOr<Upload::Finished> finished = upload->Finish(traffic_);
  absl::Status status = finished.status();
  std::uint64_t resident_id = 0;
  // Absent where nothing lands: a release then gives the bytes back at once.
  std::shared_ptr<StoredOperand> landing;
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
      if (!options_.landing_devices.empty()) landing = resident.operand;
      if (info != nullptr) *info = InfoLocked(resident_id, resident);
    }
  }
  upload->SetEnded(status, resident_id);
  if (landing != nullptr) LandUpload(landing.get());
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

void OperandStore::FillInfo(UploadStream* stream) {
  const std::uint64_t resident_id = stream->upload_->resident_id();
  const MutexLock lock(mutex_);
  const auto found = entries_.find(resident_id != 0 ? resident_id : stream->id_);
  if (found == entries_.end() || found->second.operand == nullptr) return;
  stream->info_ = InfoLocked(found->first, found->second);
}

std::optional<std::vector<MissingRange>> OperandStore::FindMissing(const Tenant& tenant,
                                                                   const std::string& digest) {
  const MutexLock lock(mutex_);
  const auto found = FindLocked(tenant, {{}, digest});
  if (found == entries_.end()) return std::vector<MissingRange>();
  if (found->second.operand != nullptr) {
    leases_.Use(found->first, clock_->Now());
    return std::nullopt;
  }
  if (found->second.upload->received_bytes() == 0) return std::vector<MissingRange>();
  return found->second.upload->Missing();
}

}  // namespace gemmd
