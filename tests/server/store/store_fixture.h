// A store over a fake device and clock, and matrices to put into it.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "server/store/operand_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"

namespace gemmd::testing {

// The digest of an operand whose planes have these bytes, in the order of kPlaneNames.
inline Sha256Digest DigestOfBytes(const OperandForm& form, const std::vector<std::string>& planes) {
  OperandPlanes<std::vector<Sha256Digest>> chunks;
  for (std::size_t i = 0; i < planes.size(); ++i) chunks[kPlaneNames[i]] = ChunkDigests(planes[i]);
  return DigestOf(form, chunks);
}

// An int8 matrix of one column with these bytes.
struct StoredMatrix {
  explicit StoredMatrix(std::string content) : bytes(std::move(content)) {
    const auto rows = static_cast<std::int64_t>(bytes.size());
    form.data = {DataType::kInt8, rows, 1, Order::kRowMajor, 1};
    digest = DigestOfBytes(form, {bytes});
  }
  OperandKey key() const { return {{}, ToBytes(digest)}; }

  std::string bytes;
  OperandForm form;
  Sha256Digest digest{};
};

inline StoreOptions SmallStore() {
  StoreOptions options;
  options.all = {8, 1000};
  options.tenant = {6, 600};
  options.default_lease = 10 * kSecond;
  options.max_lease = 100 * kSecond;
  options.upload_lease = 20 * kSecond;
  options.upload_grace = 20 * kSecond;
  return options;
}

struct StoreFixture {
  explicit StoreFixture(const StoreOptions& options = SmallStore(),
                        std::uint64_t device_bytes = 1 << 20)
      : device(&clock, device_bytes, 1), store(options, &device, &clock, 0xabcd) {}

  absl::StatusOr<bool> Send(OperandStore::UploadStream* stream, const StoredMatrix& matrix,
                            std::uint64_t begin, std::uint64_t end) {
    const absl::string_view piece = absl::string_view(matrix.bytes).substr(begin, end - begin);
    return stream->Receive({PlaneName::kData, begin, {&piece, 1}});
  }

  // The handle.
  absl::StatusOr<std::string> Put(const Tenant& tenant, const StoredMatrix& matrix,
                                  std::optional<TimeNs> lease = std::nullopt) {
    auto stream = store.BeginUpload(tenant, matrix.digest, matrix.form, lease);
    if (!stream.ok()) return stream.status();
    if (!(*stream)->resident()) {
      const auto sent = Send(stream->get(), matrix, 0, matrix.bytes.size());
      if (!sent.ok()) return sent.status();
    }
    if (absl::Status status = (*stream)->End(); !status.ok()) return status;
    return (*stream)->info().handle;
  }

  std::string BytesOf(const Tenant& tenant, const OperandKey& key) {
    const auto operand = store.Read(tenant, key);
    if (!operand.ok()) return operand.status().ToString();
    const auto piece = (*operand)->Whole(PlaneName::kData);
    return std::string(piece->data, piece->size_bytes);
  }

  FakeClock clock;
  FakeDevice device;
  OperandStore store;
};

}  // namespace gemmd::testing
