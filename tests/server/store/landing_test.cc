// A stored operand on devices that have memory of their own.
#include "server/device/cuda/planes/landing.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/store/operand_store.h"
#include "tests/server/store/landing_device.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using testing::LandingDevice;
using testing::StoredMatrix;

// Lands operands as CUDA devices do.
class CudaLikeDevice final : public LandingDevice {
 public:
  using LandingDevice::LandingDevice;
  Problem Landed(const Problem& problem) const override { return LandedProblem(problem); }
};

class LandingTest : public ::testing::Test {
 protected:
  LandingTest() : store_(testing::SmallStore(), &device_, &clock_, 1) {
    const absl::string_view piece = matrix_.bytes;
    auto stream = *store_.BeginUpload(Tenant(), matrix_.digest, matrix_.form, 0);
    EXPECT_TRUE(*stream->Receive({PlaneName::kData, 0, {&piece, 1}}));
    problem_ = MakeProblem(1, 1, 8, DataType::kInt8, DataType::kInt32);
    problem_.b = matrix_.form.data;
  }

  std::shared_ptr<StoredOperand> Use() { return *store_.Use(Tenant(), matrix_.key(), "b"); }

  testing::FakeClock clock_;
  LandingDevice device_{500};
  LandingDevice second_{500};
  OperandStore store_;
  std::uint64_t landed_bytes_ = 0;
  const StoredMatrix matrix_{"01234567"};
  Problem problem_;
};

TEST_F(LandingTest, TheFirstUseLandsItAndLaterOnesFindIt) {
  EXPECT_EQ(Use()->holder(), nullptr);
  EXPECT_EQ(device_.memory().usage().resident_bytes, 0u);
  for (int i = 0; i < 3; ++i) {
    const auto placed = Use()->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_);
    ASSERT_TRUE(placed.ok()) << placed.status();
    EXPECT_EQ(std::string(static_cast<const char*>(placed->landed->data()), 8), matrix_.bytes);
  }
  EXPECT_EQ(device_.stores, 1);
  EXPECT_EQ(Use()->holder(), &device_);
  EXPECT_EQ(store_.Get(Tenant(), matrix_.key())->device_bytes, 8u);
}

TEST_F(LandingTest, AnotherFormOrDeviceGetsItFromTheFirst) {
  ASSERT_TRUE(Use()->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_).ok());
  Problem transposed = problem_;
  transposed.transpose_b = true;
  ASSERT_TRUE(Use()->PlaceOn(&device_, transposed, WorkPlane::kB, &landed_bytes_).ok());
  // It never left the device.
  EXPECT_EQ(device_.stores, 1);
  EXPECT_EQ(device_.copies, 1);
  EXPECT_EQ(device_.fetches, 0);
  EXPECT_EQ(landed_bytes_, 8u);
  const auto placed = Use()->PlaceOn(&second_, problem_, WorkPlane::kB, &landed_bytes_);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(std::string(static_cast<const char*>(placed->landed->data()), 8), matrix_.bytes);
  EXPECT_EQ(second_.stores, 1);
  EXPECT_EQ(device_.fetches, 1);
  EXPECT_EQ(landed_bytes_, 16u);
}

TEST(PackedLanding, TakesThePlaceOfWhatLandedAsItWasSent) {
  CudaLikeDevice device(64 << 10);
  Problem problem = MakeProblem(1, 128, 128, DataType::kBf16, DataType::kBf16, false, true);
  problem.b.type = DataType::kInt4;
  problem.b_scaling = Scaling{true, DataType::kF16, 1, 128};
  OperandForm form;
  form.data = problem.b;
  StoredOperand::Memory memory;
  memory[PlaneName::kData] = AllocateHostBuffer(form.data.size_bytes());
  StoredOperand operand(form, std::move(memory), std::make_shared<StoreHold>(),
                        std::make_shared<StoreTraffic>());
  std::uint64_t landed_bytes = 0;
  const auto place = [&](Packing packing) {
    problem.b_packing = packing;
    return operand.PlaceOn(&device, problem, WorkPlane::kB, &landed_bytes)->landed;
  };
  // A work under way keeps what it has.
  std::shared_ptr<const ResidentOperand> plain = place(Packing::kNone);
  const std::shared_ptr<const ResidentOperand> packed = place(Packing::kStrips);
  EXPECT_NE(plain, packed);
  EXPECT_EQ(device.memory().usage().resident_bytes, 2 * form.data.size_bytes());
  plain = nullptr;
  EXPECT_EQ(device.memory().usage().resident_bytes, form.data.size_bytes());
  EXPECT_EQ(place(Packing::kStrips), packed);
  EXPECT_EQ(device.stores, 1);
  EXPECT_EQ(device.copies, 1);
  // A later use of the plane as it was sent lands it a second time; from then on both stay.
  place(Packing::kNone);
  EXPECT_EQ(place(Packing::kStrips), packed);
  place(Packing::kNone);
  EXPECT_EQ(device.copies, 2);
  EXPECT_EQ(landed_bytes, form.data.size_bytes());
}

TEST(PackedLanding, NoHistoryLosesMemoryOrAPlane) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    CudaLikeDevice devices[] = {CudaLikeDevice(64 << 10), CudaLikeDevice(64 << 10)};
    Problem problem = MakeProblem(1, 128, 128, DataType::kBf16, DataType::kBf16, false, true);
    problem.b.type = DataType::kInt4;
    problem.b_scaling = Scaling{true, DataType::kF16, 1, 128};
    OperandForm form;
    form.data = problem.b;
    const std::uint64_t bytes = form.data.size_bytes();
    StoredOperand::Memory memory;
    memory[PlaneName::kData] = AllocateHostBuffer(bytes);
    std::string sent(bytes, '\0');
    for (char& byte : sent) byte = static_cast<char>(random());
    std::copy(sent.begin(), sent.end(), memory[PlaneName::kData].front().data);
    {
      StoredOperand operand(form, std::move(memory), std::make_shared<StoreHold>(),
                            std::make_shared<StoreTraffic>());
      std::vector<std::shared_ptr<const ResidentOperand>> works;
      std::uint64_t landed_bytes = 0;
      for (int step = 0; step < 60; ++step) {
        CudaLikeDevice& device = devices[random() % 2];
        switch (random() % 6) {
          case 0:
          case 1:
          case 2: {
            problem.b_packing = random() % 2 == 0 ? Packing::kNone : Packing::kStrips;
            const auto placed = operand.PlaceOn(&device, problem, WorkPlane::kB, &landed_bytes);
            ASSERT_TRUE(placed.ok()) << placed.status();
            EXPECT_EQ(placed->landed->layout().type,
                      problem.b_packing == Packing::kNone ? DataType::kInt4 : DataType::kUint8);
            if (works.size() < 3) works.push_back(placed->landed);
            break;
          }
          case 3:
            ASSERT_TRUE(operand.MoveOut(&device).ok());
            break;
          case 4:
            operand.DropCopy(&device);
            break;
          default:
            if (!works.empty()) works.erase(works.begin());
        }
        const auto whole = operand.Whole(PlaneName::kData);
        ASSERT_TRUE(whole.ok()) << whole.status();
        EXPECT_TRUE(std::string(whole->data, whole->size_bytes) == sent) << seed << ", " << step;
        for (const CudaLikeDevice& each : devices) EXPECT_LE(operand.device_bytes(each), 2 * bytes);
      }
      works.clear();
      for (CudaLikeDevice& each : devices) {
        EXPECT_EQ(each.memory().usage().resident_bytes, operand.device_bytes(each));
      }
    }
    for (CudaLikeDevice& each : devices) EXPECT_EQ(each.memory().usage().resident_bytes, 0U);
  }
}

TEST_F(LandingTest, ADownloadBringsItBack) {
  ASSERT_TRUE(Use()->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_).ok());
  const auto piece = Use()->Whole(PlaneName::kData);
  ASSERT_TRUE(piece.ok()) << piece.status();
  EXPECT_EQ(std::string(piece->data, piece->size_bytes), matrix_.bytes);
}

TEST_F(LandingTest, WhatIsReleasedCountsUntilNobodyHasItsMemoryAnywhere) {
  auto landed = Use()->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_);
  auto fetched = Use()->Whole(PlaneName::kData);
  ASSERT_TRUE(landed.ok() && fetched.ok());
  ASSERT_TRUE(store_.Release(Tenant(), matrix_.key()).ok());
  EXPECT_EQ(store_.statistics().reserved_bytes, 8u);
  landed->landed = nullptr;
  EXPECT_EQ(store_.statistics().reserved_bytes, 8u);
  *fetched = HostPiece();
  EXPECT_EQ(store_.statistics().reserved_bytes, 0u);
}

TEST_F(LandingTest, WhatIsReleasedCountsUntilNoWorkHasWhatLanded) {
  auto landed = Use()->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_);
  ASSERT_TRUE(landed.ok()) << landed.status();
  ASSERT_TRUE(store_.Release(Tenant(), matrix_.key()).ok());
  EXPECT_EQ(store_.statistics().reserved_bytes, 8u);
  landed->landed = nullptr;
  EXPECT_EQ(store_.statistics().reserved_bytes, 0u);
}

TEST_F(LandingTest, AResultThatIsReleasedCountsUntilNobodyHasItsMemory) {
  auto result = *store_.BeginResult(Tenant(), matrix_.form.data, std::nullopt, &device_);
  ASSERT_TRUE(result->PlaceOn(&device_).ok());
  std::shared_ptr<ResidentResult> checked = result->resident();
  const std::string handle = store_.Keep(std::move(result));
  ASSERT_TRUE(store_.Release(Tenant(), {handle, {}}).ok());
  EXPECT_EQ(store_.statistics().reserved_bytes, 16u);
  checked = nullptr;
  EXPECT_EQ(store_.statistics().reserved_bytes, 8u);
}

TEST_F(LandingTest, WhatHasLandedIsEvictedForItsDevicesSake) {
  EXPECT_FALSE(store_.EvictFrom(&device_));  // nothing of it is there yet
  ASSERT_TRUE(Use()->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_).ok());
  EXPECT_FALSE(store_.EvictFrom(&second_));
  EXPECT_TRUE(store_.EvictFrom(&device_));
  EXPECT_EQ(device_.memory().usage().resident_bytes, 0u);
}

// A result of 8 bytes, of which the first says which it is.
std::string Keep(OperandStore* store, LandingDevice* device, const MatrixLayout& d, char name,
                 std::optional<TimeNs> lease = std::nullopt) {
  auto result = *store->BeginResult(Tenant(), d, lease, device);
  EXPECT_TRUE(result->memory().empty());
  EXPECT_TRUE(result->PlaceOn(device).ok());
  static_cast<char*>(result->resident()->memory())[0] = name;
  return store->Keep(std::move(result));
}

TEST_F(LandingTest, AKeptResultIsThereWhereItWasMade) {
  const std::string handle = Keep(&store_, &device_, matrix_.form.data, 'r');
  const auto operand = *store_.Use(Tenant(), {handle, {}}, "b");
  EXPECT_EQ(operand->holder(), &device_);
  EXPECT_EQ(store_.Get(Tenant(), {handle, {}})->device_bytes, 8u);
  Problem as_it_lies = problem_;
  as_it_lies.transpose_b = true;  // row-major is K-major then
  const auto placed = operand->PlaceOn(&device_, as_it_lies, WorkPlane::kB, &landed_bytes_);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(static_cast<const char*>(placed->landed->data())[0], 'r');
  EXPECT_EQ(device_.stores + device_.copies + device_.fetches, 0);
  EXPECT_EQ(landed_bytes_, 0u);
  EXPECT_EQ(operand->Whole(PlaneName::kData)->data[0], 'r');
  EXPECT_EQ(store_.statistics().fetched_bytes, 8u);
}

TEST_F(LandingTest, ManyReadersHaveOneCopy) {
  const std::string handle = Keep(&store_, &device_, matrix_.form.data, 'r');
  const auto operand = *store_.Read(Tenant(), {handle, {}});
  auto first = *operand->Planes(PlaneName::kData);
  auto second = *operand->Planes(PlaneName::kData);
  EXPECT_EQ(first.front().data, second.front().data);
  EXPECT_EQ(device_.fetches, 1);
  const std::weak_ptr<void> copy = first.front().owner;
  first.clear();
  second.clear();
  EXPECT_TRUE(copy.expired());
  EXPECT_EQ((*operand->Planes(PlaneName::kData)).front().data[0], 'r');
  EXPECT_EQ(device_.fetches, 2);
}

TEST_F(LandingTest, AResultThatIsNotKeptGivesItsMemoryBack) {
  auto result = *store_.BeginResult(Tenant(), matrix_.form.data, std::nullopt, &device_);
  ASSERT_TRUE(result->PlaceOn(&device_).ok());
  EXPECT_EQ(device_.memory().usage().resident_bytes, 8u);
  result = nullptr;
  EXPECT_EQ(device_.memory().usage().resident_bytes, 0u);
  EXPECT_EQ(store_.statistics().reserved_bytes, 8u);  // the uploaded one's
}

TEST_F(LandingTest, TheLargestThatIsIdleMovesOutAndComesBack) {
  const MatrixLayout large{DataType::kInt8, 16, 1, Order::kRowMajor, 1};
  const std::string first = Keep(&store_, &device_, matrix_.form.data, '1');
  Keep(&store_, &device_, large, '2');
  const std::string third = Keep(&store_, &device_, matrix_.form.data, '3');
  // Leases are no hindrance, since nothing is lost. An operand in use stays.
  auto used = *store_.Use(Tenant(), {first, {}}, "b");
  EXPECT_EQ(store_.MoveOutOf(&device_), 16u);
  EXPECT_EQ(store_.MoveOutOf(&device_), 8u);
  EXPECT_EQ(store_.MoveOutOf(&device_), std::nullopt);
  EXPECT_EQ(device_.memory().usage().resident_bytes, 8u);
  EXPECT_EQ(used->holder(), &device_);
  used = nullptr;
  EXPECT_EQ(store_.MoveOutOf(&device_), 8u);
  EXPECT_EQ(store_.MoveOutOf(&second_), std::nullopt);
  StoreStatistics statistics = store_.statistics();
  EXPECT_EQ(statistics.moves_out, 3u);
  EXPECT_EQ(statistics.moved_out_bytes, 32u);
  EXPECT_EQ(statistics.device_bytes, 0u);
  EXPECT_EQ(statistics.residents, 4u);
  EXPECT_EQ(statistics.evictions, 0u);
  const auto operand = *store_.Use(Tenant(), {third, {}}, "b");
  EXPECT_EQ(operand->holder(), nullptr);
  EXPECT_EQ(operand->Whole(PlaneName::kData)->data[0], '3');
  const auto placed = operand->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(static_cast<const char*>(placed->landed->data())[0], '3');
  EXPECT_EQ(landed_bytes_, 8u);
  statistics = store_.statistics();
  EXPECT_EQ(statistics.landings, 1u);
  EXPECT_EQ(statistics.landed_bytes, 8u);
  EXPECT_EQ(statistics.device_bytes, 8u);
}

TEST_F(LandingTest, WhatAnotherDeviceHasIsNotFetchedToMoveOut) {
  ASSERT_TRUE(Use()->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_).ok());
  ASSERT_TRUE(Use()->PlaceOn(&second_, problem_, WorkPlane::kB, &landed_bytes_).ok());
  const int fetches = device_.fetches;
  EXPECT_EQ(store_.MoveOutOf(&device_), 8u);
  EXPECT_EQ(device_.fetches, fetches);
  EXPECT_EQ(Use()->holder(), &second_);
  EXPECT_EQ(std::string(Use()->Whole(PlaneName::kData)->data, 8), matrix_.bytes);
}

TEST_F(LandingTest, WhatCannotBeFetchedStaysWhereItIs) {
  const std::string handle = Keep(&store_, &device_, matrix_.form.data, 'r');
  device_.fetch_status = absl::UnavailableError("lost");
  EXPECT_EQ(store_.MoveOutOf(&device_), std::nullopt);
  EXPECT_EQ((*store_.Use(Tenant(), {handle, {}}, "b"))->holder(), &device_);
  device_.fetch_status = absl::OkStatus();
  EXPECT_EQ(store_.MoveOutOf(&device_), 8u);
}

// On the device that has most room, as it lies.
TEST_F(LandingTest, AnUploadLandsWhenItIsWhole) {
  StoreOptions options = testing::SmallStore();
  options.landing_devices = {&device_, &second_};
  auto filler = *device_.memory().Reserve(100, 0);
  OperandStore store(options, &device_, &clock_, 1);
  const absl::string_view piece = matrix_.bytes;
  auto stream = *store.BeginUpload(Tenant(), matrix_.digest, matrix_.form, std::nullopt);
  ASSERT_TRUE(*stream->Receive({PlaneName::kData, 0, {&piece, 1}}));
  EXPECT_EQ(second_.stores, 1);
  EXPECT_EQ(store.statistics().landed_bytes, 8u);
  const auto operand = *store.Use(Tenant(), matrix_.key(), "b");
  EXPECT_EQ(operand->holder(), &second_);
  Problem as_it_lies = problem_;
  as_it_lies.transpose_b = true;
  ASSERT_TRUE(operand->PlaceOn(&second_, as_it_lies, WorkPlane::kB, &landed_bytes_).ok());
  EXPECT_EQ(landed_bytes_, 0u);
  EXPECT_EQ(second_.stores + second_.copies, 1);
  EXPECT_EQ(std::string(operand->Whole(PlaneName::kData)->data, 8), matrix_.bytes);
}

// Codes with scales of whole lines are multiplied as they are, others decoded: they land apart.
TEST_F(LandingTest, AnUploadOfCodesLandsAsItsProductsWantIt) {
  constexpr std::int64_t kRows = 4;
  constexpr std::int64_t kSize = 96;
  constexpr BlockScaling kGroups = {32, 1};
  struct Case {
    DataType codes;
    std::optional<BlockScaling> blocks;
    bool has_zero_points;
    DataType partner;
    DataType scales = DataType::kF32;
  };
  for (const Case& each : {Case{DataType::kInt8, {}, false, DataType::kInt8},
                           {DataType::kInt8, kGroups, false, DataType::kBf16},
                           {DataType::kInt8, {}, true, DataType::kInt8},
                           {DataType::kInt8, {}, false, DataType::kInt8, DataType::kBf16},
                           {DataType::kFp8E4M3, {}, false, DataType::kFp8E5M2},
                           {DataType::kInt4, kGroups, false, DataType::kF32},
                           {DataType::kUint4, kGroups, true, DataType::kF16}}) {
    const std::int64_t blocks = each.blocks.has_value() ? kSize / 32 : 1;
    OperandForm form;
    form.data = {each.codes, kRows, kSize, Order::kRowMajor, kSize};
    form.scales = MatrixLayout{each.scales, kRows, blocks, Order::kRowMajor, blocks};
    form.blocks = each.blocks;
    std::vector<std::string> planes = {std::string(form.data.size_bytes(), '\1'),
                                       std::string(form.scales->size_bytes(), '\0')};
    if (each.has_zero_points) {
      form.zero_points = MatrixLayout{DataType::kUint8, kRows, blocks, Order::kRowMajor, blocks};
      if (each.codes == DataType::kInt8) form.zero_points->type = DataType::kInt8;
      planes.emplace_back(form.zero_points->size_bytes(), '\1');
    }
    CudaLikeDevice device(5000);
    StoreOptions options = testing::SmallStore();
    options.landing_devices = {&device};
    OperandStore store(options, &device, &clock_, 1);
    const Sha256Digest digest = testing::DigestOfBytes(form, planes);
    auto stream = *store.BeginUpload(Tenant(), digest, form, std::nullopt);
    for (std::size_t i = planes.size(); i-- > 0;) {
      const absl::string_view piece = planes[i];
      const auto received = stream->Receive({kPlaneNames[i], 0, {&piece, 1}});
      ASSERT_TRUE(received.ok()) << received.status();
    }
    EXPECT_EQ(store.statistics().landings, 1u);
    Problem use = MakeProblem(kRows, 8, kSize, each.partner, DataType::kF32);
    use.a = form.data;
    use.a_scaling = Scaling::kVector;
    use.a_scaling.type = each.scales;
    if (each.blocks.has_value()) use.a_scaling.block_k = 32;
    use.a_scaling.has_zero_points = each.has_zero_points;
    const auto operand = *store.Use(Tenant(), {{}, ToBytes(digest)}, "a");
    ASSERT_TRUE(operand->PlaceOn(&device, use, WorkPlane::kA, &landed_bytes_).ok());
    EXPECT_EQ(landed_bytes_, 0u) << Name(each.codes);
    EXPECT_EQ(device.stores + device.copies, 1) << Name(each.codes);
  }
}

TEST_F(LandingTest, AnUploadWaitsInHostMemoryWhereNoDeviceHasRoom) {
  StoreOptions options = testing::SmallStore();
  options.landing_devices = {&device_};
  auto filler = *device_.memory().Reserve(495, 0);
  OperandStore store(options, &device_, &clock_, 1);
  const absl::string_view piece = matrix_.bytes;
  auto stream = *store.BeginUpload(Tenant(), matrix_.digest, matrix_.form, std::nullopt);
  ASSERT_TRUE(*stream->Receive({PlaneName::kData, 0, {&piece, 1}}));
  const auto operand = *store.Use(Tenant(), matrix_.key(), "b");
  EXPECT_EQ(operand->holder(), nullptr);
  filler.Release();
  ASSERT_TRUE(operand->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_).ok());
  EXPECT_EQ(landed_bytes_, 8u);
}

TEST_F(LandingTest, AFullDeviceLeavesItWhereItIs) {
  auto rest = *device_.memory().Reserve(495, 0);
  EXPECT_EQ(Use()->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_).status().code(),
            absl::StatusCode::kResourceExhausted);
  rest.Release();
  EXPECT_TRUE(Use()->PlaceOn(&device_, problem_, WorkPlane::kB, &landed_bytes_).ok());
}

}  // namespace
}  // namespace gemmd
