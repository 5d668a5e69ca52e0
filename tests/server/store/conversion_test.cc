// Quantizing on arrival, against base/numbers/quant and through the store.
#include "server/store/conversion.h"

#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/numbers/quant/quantize.h"
#include "gtest/gtest.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using testing::SmallStore;
using testing::StoreFixture;

constexpr std::int64_t kRows = 37;
constexpr std::int64_t kColumns = 133;

std::vector<float> RandomValues(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

MatrixLayout Tight(DataType type, std::int64_t rows, std::int64_t columns, Order order) {
  return {type, rows, columns, order, order == Order::kRowMajor ? columns : rows};
}

// The form of such a matrix in that format; scales lie along K.
StoredAs As(const QuantFormat& format, std::int64_t rows, std::int64_t columns, Order order,
            bool k_is_columns) {
  StoredAs as;
  as.format = format;
  as.k_is_columns = k_is_columns;
  as.form.data = Tight(format.element, rows, columns, order);
  const std::int64_t lines = k_is_columns ? rows : columns;
  const std::int64_t k = k_is_columns ? columns : rows;
  const Scaling& scaling = format.scaling;
  const std::int64_t line_blocks = scaling.line_blocks(lines);
  const std::int64_t k_blocks = scaling.k_blocks(k);
  const auto scales = [&](DataType type) {
    return k_is_columns ? Tight(type, line_blocks, k_blocks, Order::kRowMajor)
                        : Tight(type, k_blocks, line_blocks, Order::kColumnMajor);
  };
  as.form.scales = scales(scaling.type);
  if (scaling.has_zero_points) {
    as.form.zero_points =
        scales(RangeOf(format.element).lowest < 0 ? DataType::kInt8 : DataType::kUint8);
  }
  if (scaling.has_tensor_scale) as.form.tensor_scale = Tight(DataType::kF32, 1, 1, order);
  if (scaling.has_offsets) as.form.offsets = scales(scaling.type);
  if (scaling.block_k != kWhole) {
    as.form.blocks = BlockScaling{scaling.block_k, scaling.block_lines, false};
  }
  return as;
}

// The planes that Convert() makes; their memory is dirty before.
std::vector<std::string> Converted(const std::vector<float>& values, const MatrixLayout& from,
                                   const StoredAs& as, absl::Status* status = nullptr) {
  std::vector<std::string> planes;
  planes.reserve(kPlaneNames.size());
  KeptPlanes bytes;
  for (const PlaneName each : kPlaneNames) {
    const MatrixLayout* const layout = as.form.plane(each);
    planes.emplace_back(layout == nullptr ? 0 : layout->size_bytes(), '\xa5');
    if (layout != nullptr) bytes[each] = planes.back().data();
  }
  const absl::Status converted =
      Convert(from, reinterpret_cast<const char*>(values.data()), as, bytes);
  if (status != nullptr) *status = converted;
  return planes;
}

// Every format, either direction of K, either order: the planes are those that the definition
// makes of the same lines.
TEST(Conversion, IsWhatQuantizingTheLinesGives) {
  for (const NamedFormat& each : QuantFormats()) {
    std::vector<float> values = RandomValues(kRows * kColumns, 1);
    for (float& value : values) value = HasSign(each.format) ? value : std::abs(value);
    for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
      for (const bool k_is_columns : {true, false}) {
        const MatrixLayout from = Tight(DataType::kF32, kRows, kColumns, order);
        const StoredAs as = As(each.format, kRows, kColumns, order, k_is_columns);
        absl::Status status;
        const auto planes = Converted(values, from, as, &status);
        ASSERT_TRUE(status.ok()) << each.name << ": " << status;

        RealView real;
        real.data = values.data();
        real.lines = k_is_columns ? kRows : kColumns;
        real.k = k_is_columns ? kColumns : kRows;
        const bool k_is_inner = k_is_columns == (order == Order::kRowMajor);
        real.line_stride = k_is_inner ? real.k : 1;
        real.k_stride = k_is_inner ? 1 : real.lines;
        const auto expected = Quantize(each.format, real);
        ASSERT_TRUE(expected.ok()) << expected.status();
        QuantizedView view = expected->view();
        view.codes = planes[0].data();
        view.line_stride = real.line_stride;
        view.k_stride = real.k_stride;
        view.scales = planes[1].data();
        view.zero_points = planes[2].empty() ? nullptr : planes[2].data();
        if (!planes[3].empty()) std::memcpy(&view.tensor_scale, planes[3].data(), sizeof(float));
        view.offsets = planes[4].empty() ? nullptr : planes[4].data();
        EXPECT_EQ(view.tensor_scale, expected->tensor_scale) << each.name;
        EXPECT_EQ(planes[1], std::string(expected->scales.begin(), expected->scales.end()))
            << each.name;
        EXPECT_TRUE(Dequantize(view) == Dequantize(expected->view()))
            << each.name << ", k_is_columns " << k_is_columns;
      }
    }
  }
}

TEST(Conversion, NamesTheElementThatTheFormatCannotHold) {
  std::vector<float> values = RandomValues(kRows * kColumns, 1);
  values[2 * kColumns + 5] = std::numeric_limits<float>::infinity();
  const MatrixLayout from = Tight(DataType::kF32, kRows, kColumns, Order::kRowMajor);
  absl::Status status;
  Converted(values, from, As(*FindQuantFormat("mxfp4"), kRows, kColumns, Order::kRowMajor, true),
            &status);
  EXPECT_EQ(status.message(),
            "begin.stored_form: element (2, 5) is inf: quantized matrices are finite");
  Converted(values, from, As(*FindQuantFormat("mxfp4"), kRows, kColumns, Order::kRowMajor, false),
            &status);
  EXPECT_TRUE(absl::StrContains(status.message(), "element (2, 5) is inf"));
  values[2 * kColumns + 5] = 1e7f;
  for (const bool k_is_columns : {true, false}) {
    const StoredAs as =
        As(*FindQuantFormat("int4-g32-f16"), kRows, kColumns, Order::kRowMajor, k_is_columns);
    Converted(values, from, as, &status);
    EXPECT_EQ(status.message(),
              "begin.stored_form: element (2, 5) is 1e+07: int4 with f16 scales holds magnitudes "
              "below 458640; bf16 scales hold more");
  }
}

// A store of some kilobytes, and a matrix that it quantizes.
class ConvertingStore : public ::testing::Test {
 protected:
  static StoreOptions Options() {
    StoreOptions options = SmallStore();
    options.all = {8, kSent + kKept + 100};
    options.tenant = options.all;
    return options;
  }

  ConvertingStore() {
    form_.data = Tight(DataType::kF32, 8, 64, Order::kRowMajor);
    bytes_.assign(reinterpret_cast<const char*>(values_.data()), kSent);
    digest_ = testing::DigestOfBytes(form_, {bytes_});
    planes_ = Converted(values_, form_.data, as_);
    kept_digest_ = testing::DigestOfBytes(as_.form, planes_);
  }

  absl::StatusOr<std::unique_ptr<OperandStore::UploadStream>> Begin() {
    return fixture_.store.BeginUpload(tenant_, digest_, form_, std::nullopt, as_);
  }
  static absl::Status Send(OperandStore::UploadStream* stream, const std::string& bytes,
                           std::uint64_t begin, std::uint64_t end) {
    const absl::string_view piece = absl::string_view(bytes).substr(begin, end - begin);
    const auto sent = stream->Receive({PlaneName::kData, begin, {&piece, 1}});
    if (sent.ok()) {
      EXPECT_FALSE(*sent);
    }
    return sent.status();
  }
  // Waits for the upload's end; returns its status.
  static absl::Status Await(OperandStore::UploadStream* stream) {
    std::promise<absl::Status> told;
    if (stream->AwaitEnd([&](const absl::Status& outcome) { told.set_value(outcome); })) {
      const absl::Status outcome = told.get_future().get();
      return outcome.ok() ? stream->End() : outcome;
    }
    const std::optional<absl::Status> outcome = stream->outcome();
    if (!outcome.has_value()) return absl::InternalError("it is not whole");
    return outcome->ok() ? stream->End() : *outcome;
  }

  // Returns whether there was something to see.
  bool TryEviction(StoreFixture* fixture) const {
    // The first upload's end keeps the converter busy.
    std::promise<void> gate;
    std::shared_future<void> is_open(gate.get_future());
    auto first = fixture->store.BeginUpload(tenant_, digest_, form_, 100 * kSecond, as_);
    EXPECT_TRUE(Send(first->get(), bytes_, 0, kSent - 4).ok());
    std::promise<void> is_busy;
    EXPECT_TRUE(Send(first->get(), bytes_, kSent - 4, kSent).ok());
    if (!(*first)->AwaitEnd([&](const absl::Status& /*outcome*/) {
          is_busy.set_value();
          is_open.wait();
        })) {
      return false;
    }
    is_busy.get_future().wait();
    std::string other_bytes(bytes_.rbegin(), bytes_.rend());
    for (std::size_t i = 0; i < other_bytes.size(); i += 4)
      other_bytes.replace(i, 4, "\0\0\x80?", 4);
    const Sha256Digest other = testing::DigestOfBytes(form_, {other_bytes});
    auto second = fixture->store.BeginUpload(tenant_, other, form_, std::nullopt, as_);
    EXPECT_TRUE(second.ok()) << second.status();
    EXPECT_TRUE(Send(second->get(), other_bytes, 0, kSent).ok());
    fixture->clock.Advance(30 * kSecond);  // its lease is over
    const testing::StoredMatrix innocent(std::string(90, 'i'));
    const auto put = fixture->Put(tenant_, innocent, TimeNs{0});
    EXPECT_TRUE(put.ok()) << put.status();
    // Room for this there will be once the innocent one has gone, and not before.
    const testing::StoredMatrix needs_room(std::string(kSent + 50, 'n'));
    EXPECT_TRUE(fixture->Put(tenant_, needs_room).ok());
    gate.set_value();
    EXPECT_TRUE(Await(second->get()).ok());
    return true;
  }

  static constexpr std::uint64_t kSent = 8 * 64 * 4;
  static constexpr std::uint64_t kKept = 8 * 64 + 8 * 2;  // mxfp8: a byte each, and one for 32
  const Tenant tenant_;
  const std::vector<float> values_ = RandomValues(8 * 64, 2);
  std::string bytes_;
  OperandForm form_;
  Sha256Digest digest_{};
  const StoredAs as_ = As(*FindQuantFormat("mxfp8-e4m3"), 8, 64, Order::kRowMajor, true);
  std::vector<std::string> planes_;
  Sha256Digest kept_digest_{};
  StoreFixture fixture_{Options()};
};

TEST_F(ConvertingStore, KeepsTheQuantizedPlanesUnderTheirOwnDigest) {
  auto stream = Begin();
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(fixture_.store.statistics().reserved_bytes, kSent + kKept);
  ASSERT_TRUE(Send(stream->get(), bytes_, 0, kSent).ok());
  ASSERT_TRUE(Await(stream->get()).ok());
  const StoredInfo& info = (*stream)->info();
  EXPECT_EQ(info.digest, ToBytes(kept_digest_));
  EXPECT_TRUE(info.form == as_.form);
  EXPECT_EQ(fixture_.BytesOf(tenant_, {info.handle, {}}), planes_[0]);
  EXPECT_EQ(fixture_.store.statistics().reserved_bytes, kKept);
  EXPECT_TRUE(fixture_.store.FindMissing(tenant_, ToBytes(digest_)).has_value())
      << "what was sent is not here";
  EXPECT_FALSE(fixture_.store.FindMissing(tenant_, ToBytes(kept_digest_)).has_value());
  ASSERT_TRUE(fixture_.store.Release(tenant_, {info.handle, {}}).ok());
  EXPECT_EQ(fixture_.store.statistics().reserved_bytes, 0u);
}

TEST_F(ConvertingStore, TheSameAgainIsFoundAndKeptOnce) {
  auto first = Begin();
  ASSERT_TRUE(Send(first->get(), bytes_, 0, kSent).ok());
  ASSERT_TRUE(Await(first->get()).ok());
  const std::string handle = (*first)->info().handle;
  fixture_.clock.Advance(5 * kSecond);
  auto second = Begin();
  ASSERT_TRUE(second.status().code() == absl::StatusCode::kResourceExhausted)
      << "there is no room for what comes beside it: " << second.status();
  ASSERT_TRUE(fixture_.store.Release(tenant_, {handle, {}}).ok());

  StoreOptions roomy = Options();
  roomy.all.bytes = roomy.tenant.bytes = 10 * kSent;
  StoreFixture large(roomy);
  std::vector<std::unique_ptr<OperandStore::UploadStream>> streams;
  for (int i = 0; i < 2; ++i) {
    auto stream = large.store.BeginUpload(tenant_, digest_, form_, std::nullopt, as_);
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE(Send(stream->get(), bytes_, 0, kSent).ok());
    ASSERT_TRUE(Await(stream->get()).ok());
    streams.push_back(*std::move(stream));
  }
  EXPECT_EQ(streams[0]->info().handle, streams[1]->info().handle);
  EXPECT_EQ(large.store.statistics().reserved_bytes, kKept);
  EXPECT_EQ(large.store.statistics().residents, 1u);
}

TEST_F(ConvertingStore, StreamsBringItTogetherAndAllAreTold) {
  auto first = Begin();
  auto second = Begin();
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(Send(first->get(), bytes_, 0, 1000).ok());
  EXPECT_FALSE((*first)->AwaitEnd([](const absl::Status& /*outcome*/) { FAIL(); }));
  EXPECT_FALSE((*first)->outcome().has_value());
  ASSERT_TRUE(Send(second->get(), bytes_, 1000, kSent).ok());
  EXPECT_TRUE(Await(second->get()).ok());
  EXPECT_TRUE(Await(first->get()).ok());
  EXPECT_EQ((*first)->info().handle, (*second)->info().handle);
}

TEST_F(ConvertingStore, WhatCannotBeQuantizedLeavesNothing) {
  std::string bytes = bytes_;
  const float nan = std::nanf("");
  bytes.replace(0, 4, reinterpret_cast<const char*>(&nan), 4);
  const Sha256Digest digest = testing::DigestOfBytes(form_, {bytes});
  auto stream = fixture_.store.BeginUpload(tenant_, digest, form_, std::nullopt, as_);
  ASSERT_TRUE(Send(stream->get(), bytes, 0, kSent).ok());
  const absl::Status status = Await(stream->get());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "element (0, 0) is nan")) << status;
  EXPECT_EQ(fixture_.store.statistics().reserved_bytes, 0u);
  EXPECT_EQ(fixture_.store.statistics().partial_uploads, 0u);
}

TEST_F(ConvertingStore, OtherBytesThanTheDigestSaysAreNotKept) {
  auto stream = Begin();
  ASSERT_TRUE(Send(stream->get(), std::string(kSent, '\1'), 0, kSent).ok());
  EXPECT_EQ(Await(stream->get()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fixture_.store.statistics().reserved_bytes, 0u);
}

TEST_F(ConvertingStore, WhatNeverFitsBesideWhatComesIsTheRequestsFault) {
  StoreOptions small = Options();
  small.all.bytes = small.tenant.bytes = kSent + kKept - 1;
  StoreFixture fixture(small);
  EXPECT_EQ(fixture.store.BeginUpload(tenant_, digest_, form_, std::nullopt, as_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A client that uploads the quantized planes themselves meanwhile finds them here.
TEST_F(ConvertingStore, AnUploadOfTheQuantizedFormGivesWay) {
  StoreOptions roomy = Options();
  roomy.all.bytes = roomy.tenant.bytes = 10 * kSent;
  StoreFixture large(roomy);
  auto direct = large.store.BeginUpload(tenant_, kept_digest_, as_.form, std::nullopt);
  ASSERT_TRUE(direct.ok()) << direct.status();
  ASSERT_TRUE(Send(direct->get(), planes_[0], 0, 100).ok());
  auto stream = large.store.BeginUpload(tenant_, digest_, form_, std::nullopt, as_);
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE(Send(stream->get(), bytes_, 0, kSent).ok());
  ASSERT_TRUE(Await(stream->get()).ok());
  EXPECT_EQ(Send(direct->get(), planes_[0], 100, 200).code(), absl::StatusCode::kResourceExhausted);
  direct = large.store.BeginUpload(tenant_, kept_digest_, as_.form, std::nullopt);
  ASSERT_TRUE(direct.ok() && (*direct)->resident());
  EXPECT_EQ((*direct)->info().handle, (*stream)->info().handle);
  EXPECT_EQ(large.store.statistics().reserved_bytes, kKept);
}

// Dropping it would give nothing back until it has been quantized, and cost others their operands.
TEST_F(ConvertingStore, AnUploadThatIsBeingQuantizedIsNotEvicted) {
  StoreOptions roomy = Options();
  roomy.all.bytes = roomy.tenant.bytes = 2 * (kSent + kKept) + 100;
  // The converter may be too quick to be awaited; then the store is another one.
  for (int round = 0; round < 1000; ++round) {
    StoreFixture fixture(roomy);
    if (TryEviction(&fixture)) return;
  }
  FAIL() << "no upload was awaited while it was quantized";
}

// Streams that come, stop, begin again, lose their leases and are evicted, in any order: the store
// counts what it holds, and what is resident is right.
TEST_F(ConvertingStore, AnyHistoryLeavesTheCountsRight) {
  StoreOptions roomy = Options();
  roomy.all.bytes = roomy.tenant.bytes = 3 * (kSent + kKept);
  std::mt19937 random(7);
  for (int history = 0; history < 50; ++history) {
    StoreFixture fixture(roomy);
    std::vector<std::unique_ptr<OperandStore::UploadStream>> streams;
    std::vector<std::uint64_t> sent;
    for (int step = 0; step < 40; ++step) {
      switch (random() % 5) {
        case 0: {
          const bool converts = random() % 2 == 0;
          auto stream = fixture.store.BeginUpload(
              tenant_, digest_, form_, static_cast<TimeNs>(random() % 3) * kSecond,
              converts ? std::optional<StoredAs>(as_) : std::nullopt);
          if (!stream.ok()) break;
          streams.push_back(*std::move(stream));
          sent.push_back(0);
          break;
        }
        case 1:
        case 2: {
          if (streams.empty()) break;
          const std::size_t i = random() % streams.size();
          if (streams[i]->resident() || sent[i] == kSent) break;
          const std::uint64_t end = std::min<std::uint64_t>(kSent, sent[i] + random() % kSent);
          const absl::string_view piece = absl::string_view(bytes_).substr(sent[i], end - sent[i]);
          const auto received = streams[i]->Receive({PlaneName::kData, sent[i], {&piece, 1}});
          sent[i] = end;
          if (!received.ok()) {
            EXPECT_EQ(received.status().code(), absl::StatusCode::kResourceExhausted);
            sent[i] = kSent;
          } else if (streams[i]->AwaitEnd([](const absl::Status& /*outcome*/) {})) {
            break;
          }
          break;
        }
        case 3:
          fixture.clock.Advance(static_cast<TimeNs>(random() % 10) * kSecond);
          break;
        default:
          if (streams.empty()) break;
          streams.erase(streams.begin());
          sent.erase(sent.begin());
      }
      ASSERT_LE(fixture.store.statistics().reserved_bytes, roomy.all.bytes);
    }
    streams.clear();
    for (const Sha256Digest& digest : {digest_, kept_digest_}) {
      const auto operand = fixture.store.Read(tenant_, {{}, ToBytes(digest)});
      if (!operand.ok()) continue;
      EXPECT_EQ(fixture.BytesOf(tenant_, {{}, ToBytes(digest)}),
                digest == digest_ ? bytes_ : planes_[0]);
    }
  }
}

}  // namespace
}  // namespace gemmd
