// Groups of rows on a CUDA device over a fake runtime: each row has the bits that it has in its
// group alone, however the groups are cut and launched.
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/quant/quant_format.h"
#include "gtest/gtest.h"
#include "server/device/cuda/launches/groups_in_parts.h"
#include "server/device/cuda/planes/stack_block.h"
#include "server/device/resident_part.h"
#include "tests/server/device/cuda/cuda_fixture.h"

namespace gemmd {
namespace {

using testing::CudaDeviceTest;
using testing::Distribution;
using testing::RandomPlane;

// A, B of all groups, the bias of all, as they are sent.
struct Groups {
  Problem problem;
  std::vector<std::int64_t> ends;
  testing::PlaneBytes a;
  testing::PlaneBytes b;
  testing::PlaneBytes bias;

  std::int64_t rows(std::size_t i) const { return ends[i] - (i == 0 ? 0 : ends[i - 1]); }
};

Groups MakeGroups(DataType type, std::int64_t n, std::int64_t k, std::vector<std::int64_t> ends,
                  std::uint32_t seed) {
  Groups groups;
  groups.ends = std::move(ends);
  groups.problem = MakeProblem(groups.ends.back(), n, k, type, type, false, seed % 2 == 0);
  groups.problem.epilogue.has_bias = seed % 3 == 0;
  const auto count = static_cast<std::int64_t>(groups.ends.size());
  const auto plane = [&](MatrixLayout layout, std::int64_t copies, std::uint32_t number) {
    (layout.order == Order::kRowMajor ? layout.rows : layout.columns) *= copies;
    return RandomPlane(layout, Distribution::kNormal, seed * 10 + number);
  };
  groups.a = plane(groups.problem.a, 1, 1);
  groups.b = plane(groups.problem.b, count, 2);
  groups.bias = plane({type, 1, n, Order::kRowMajor, n}, count, 3);
  return groups;
}

std::string Bytes(const HostBuffer& buffer) {
  std::string bytes;
  for (const HostPiece& piece : buffer) bytes.append(piece.data, piece.size_bytes);
  return bytes;
}

class CudaGroupsTest : public CudaDeviceTest {
 protected:
  const testing::ReferenceKernel& kernel() const {
    return static_cast<const testing::ReferenceKernel&>(*registry_.kernels().front());
  }

  DeviceWork MakeWorkOf(const Groups& groups) {
    DeviceWork work;
    work.problem = groups.problem;
    Stack& stack = work.stack;
    stack.count = static_cast<std::int64_t>(groups.ends.size());
    stack.row_ends = std::make_shared<const std::vector<std::int64_t>>(groups.ends);
    SetStrides(groups.problem, WorkPlane::kB, groups.problem.n * groups.problem.k, &stack);
    work.buffers[WorkPlane::kA] = groups.a.data();
    work.buffers[WorkPlane::kB] = groups.b.data();
    if (groups.problem.epilogue.has_bias) {
      SetStrides(groups.problem, WorkPlane::kBias, groups.problem.n, &stack);
      work.buffers[WorkPlane::kBias] = groups.bias.data();
    }
    auto plans = std::make_shared<std::map<std::int64_t, Plan>>();
    for (std::size_t i = 0; i < groups.ends.size(); ++i) {
      if (groups.rows(i) == 0) continue;
      Problem own = groups.problem;
      own.m = own.a.rows = own.c.rows = own.d.rows = groups.rows(i);
      (*plans)[own.m] = *Select(registry_, device_->Landed(own), device_->traits());
    }
    work.plans = std::move(plans);
    work.plan = *Select(registry_, device_->Landed(groups.problem), device_->traits());
    work.groups_go_together = goes_together_;
    work.buffers.d = *device_->AllocateResult(groups.problem.d);
    for (const HostPiece& piece : work.buffers.d) std::memset(piece.data, 7, piece.size_bytes);
    return work;
  }

  // As the scheduler does it. Returns how many launches there were.
  int Run(const DeviceWork& grouped, double slice_us) {
    const auto end = [](std::future<DeviceResult> result) {
      const absl::Status status = result.get().status;
      EXPECT_TRUE(status.ok()) << status;
    };
    const std::shared_ptr<SlicedWork> sliced = device_->Cut(grouped, slice_us);
    if (sliced == nullptr) {
      end(Submit(grouped));
      return 1;
    }
    for (int slice = 0; slice < sliced->slices(); ++slice) {
      std::vector<DeviceWork> works = sliced->WorksOf(slice);
      std::promise<DeviceResult> promise;
      std::future<DeviceResult> result = promise.get_future();
      device_->Submit(works.empty() ? DeviceLaunch::Slice(sliced, slice)
                                    : DeviceLaunch::Group(std::move(works)),
                      [&promise](DeviceResult done) { promise.set_value(std::move(done)); });
      end(std::move(result));
    }
    return sliced->slices();
  }

  bool goes_together_ = true;  // works made from then on

  void LeaveA(const Groups& groups, DeviceWork* work) {
    absl::StatusOr<std::shared_ptr<const ResidentOperand>> a =
        device_->Store(groups.problem, WorkPlane::kA, groups.a.data());
    ASSERT_TRUE(a.ok()) << a.status();
    work->resident[WorkPlane::kA] = *std::move(a);
    work->buffers[WorkPlane::kA] = nullptr;
  }

  std::string Separately(const Groups& groups) {
    const DeviceWork grouped = MakeWorkOf(groups);
    for (const DeviceWork& work : ProductsOf(grouped, 0, grouped.stack.count)) {
      EXPECT_TRUE(Submit(work).get().status.ok());
    }
    return Bytes(grouped.buffers.d);
  }
};

std::vector<std::int64_t> DrawEnds(std::mt19937* random) {
  std::vector<std::int64_t> ends;
  std::int64_t last = 0;
  const int count = 2 + static_cast<int>((*random)() % 20);
  for (int i = 0; i < count; ++i) {
    if ((*random)() % 3 != 0) last += static_cast<std::int64_t>((*random)() % 40);
    ends.push_back(last);
  }
  if (last == 0) ends.back() = 1;
  return ends;
}

TEST_F(CudaGroupsTest, EachRowHasTheBitsOfItsGroupAlone) {
  std::mt19937 random(3);
  int launches = 0;
  int runs = 0;
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    Start(seed);
    const DataType type = seed % 4 == 1 ? DataType::kF32 : DataType::kF16;
    // B of 8 x 16 and more are at multiples of 256 bytes.
    const Groups groups =
        MakeGroups(type, 16 << random() % 3, 8 << random() % 4, DrawEnds(&random), seed);
    const std::string expected = Separately(groups);
    for (const double slice_us : {1e9, 0.5, 0.01}) {
      goes_together_ = random() % 2 == 0;
      DeviceWork grouped = MakeWorkOf(groups);
      if (random() % 2 == 0) LeaveA(groups, &grouped);
      if (random() % 2 == 0) grouped.resident.d = *device_->AllocateKept(groups.problem.d);
      launches += Run(grouped, slice_us);
      ++runs;
      if (grouped.resident.d != nullptr) {
        std::string kept(groups.problem.d.size_bytes(), '?');
        ASSERT_TRUE(device_->Fetch(*grouped.resident.d, kept.data()).ok());
        ASSERT_EQ(kept, expected) << groups.ends.size() << " groups, " << seed;
        continue;
      }
      ASSERT_EQ(Bytes(grouped.buffers.d), expected) << groups.ends.size() << " groups, " << seed;
    }
    EXPECT_TRUE(AllIsFree());
  }
  EXPECT_GT(kernel().groups(), runs / 3);
  EXPECT_GT(launches, runs);
}

// A comes as one copy, D goes as one, and one launch computes all groups, or one each.
TEST_F(CudaGroupsTest, OnesThatLieTightlyGoAsOne) {
  Start(1);
  const Groups groups = MakeGroups(DataType::kF16, 64, 64, {3, 3, 9, 20}, 2);
  for (const bool goes_together : {true, false}) {
    goes_together_ = goes_together;
    const DeviceWork grouped = MakeWorkOf(groups);
    EXPECT_EQ(device_->Cut(grouped, 1e9), nullptr);
    const DeviceResult result = Submit(grouped).get();
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(kernel().groups(), 1);
    EXPECT_EQ(kernel().launches(), goes_together ? 3 : 6);
    EXPECT_EQ(result.spans.size(), 3U);
    EXPECT_EQ(result.copied.in, 20U * 64 * 2 + 4U * 64 * 64 * 2);
    EXPECT_EQ(result.copied.out, 20U * 64 * 2);
    const Footprint footprint = device_->GroupsFootprintOf(grouped, {});
    EXPECT_GE(footprint.in_flight_bytes, result.copied.in + result.copied.out);
  }
}

// Nothing is copied but B: neither the rows of A nor those of D.
TEST_F(CudaGroupsTest, RowsMayStay) {
  Start(1);
  const Groups groups = MakeGroups(DataType::kF16, 64, 64, {3, 3, 9, 20}, 2);
  DeviceWork grouped = MakeWorkOf(groups);
  LeaveA(groups, &grouped);
  grouped.resident.d = *device_->AllocateKept(groups.problem.d);
  const DeviceResult result = Submit(grouped).get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.copied.in, 4U * 64 * 64 * 2);
  EXPECT_EQ(result.copied.out, 0U);
  Residency resident = grouped.resident.which();
  const Footprint footprint = device_->GroupsFootprintOf(grouped, resident);
  EXPECT_GE(footprint.kept_bytes, 20U * 64 * 2);
  EXPECT_LT(footprint.in_flight_bytes, result.copied.in + 20U * 64 * 2);
}

// B that does not begin at multiples of 256 bytes: each group goes with its own plan.
TEST_F(CudaGroupsTest, OnesThatLieOtherwiseGoOneByOne) {
  Start(1);
  const Groups groups = MakeGroups(DataType::kF16, 24, 24, {3, 3, 9, 20}, 4);
  const DeviceWork grouped = MakeWorkOf(groups);
  const std::string expected = Separately(groups);
  EXPECT_EQ(Run(grouped, 1e9), 1);
  EXPECT_EQ(kernel().groups(), 0);
  EXPECT_EQ(Bytes(grouped.buffers.d), expected);
}

// Parts cover all rows, none is longer than it may be, and none begins or ends with an empty group.
TEST_F(CudaGroupsTest, PartsCoverEachRowOnce) {
  Start(1);
  std::mt19937 random(5);
  const PartCutter cutter(256 << 20, 64 << 10);
  for (int round = 0; round < 100; ++round) {
    const Groups groups = MakeGroups(DataType::kF16, 32, 32, DrawEnds(&random), 2);
    const DeviceWork grouped = MakeWorkOf(groups);
    const std::uint64_t most = 4000 + random() % 20000;
    const std::optional<GroupCut> cut =
        CutGroups(grouped, {}, cutter, 64 << 10, most, round % 2 == 0 ? 1e9 : 0.2);
    ASSERT_TRUE(cut.has_value());
    std::int64_t next = 0;
    for (const GroupCut::Part& part : cut->parts) {
      ASSERT_EQ(grouped.stack.row_begin(part.begin), next);
      ASSERT_LT(grouped.stack.row_begin(part.begin), grouped.stack.row_end(part.begin));
      ASSERT_LT(grouped.stack.row_begin(part.end - 1), grouped.stack.row_end(part.end - 1));
      next = grouped.stack.row_end(part.end - 1);
      const DeviceWork work = PartOf(grouped, part.begin, part.end);
      ASSERT_EQ(work.problem.m, next - grouped.stack.row_begin(part.begin));
      if (part.end - part.begin == 1) continue;
      ASSERT_EQ(work.stack.row_ends->back(), work.problem.m);
    }
    ASSERT_EQ(next, groups.ends.back());
  }
}

// A plane that stays, `step` bytes a product.
std::shared_ptr<const ResidentOperand> Staying(std::int64_t step) {
  class Memory final : public ResidentOperand {
   public:
    const void* data() const override { return this; }
    const MatrixLayout& layout() const override { return layout_; }
    std::uint64_t size_bytes() const override { return 0; }

   private:
    const MatrixLayout layout_{};
  };
  const ResidentPart::Place place = {0, static_cast<std::uint64_t>(step), 0};
  return std::make_shared<const ResidentPart>(std::make_shared<const Memory>(), place);
}

// A launch of groups knows how far apart packed codes are: all else must follow from that.
TEST(PackedGroups, GoTogetherWherePlanesFollowB) {
  DeviceWork grouped;
  grouped.problem = MakeProblem(8, 256, 512, DataType::kBf16, DataType::kBf16, false, true);
  grouped.problem.b.type = DataType::kInt4;
  grouped.problem.b_scaling = FindQuantFormat("int4-g128-f16-zp")->scaling;
  grouped.problem.b_packing = Packing::kStrips;
  grouped.stack.count = 2;
  grouped.stack.row_ends =
      std::make_shared<const std::vector<std::int64_t>>(std::vector<std::int64_t>{3, 8});
  StackBlock layout;
  layout.landed = grouped.problem;
  const auto set = [&](WorkPlane plane, WeightPlane packed, std::int64_t matrices) {
    grouped.resident[plane] =
        Staying(matrices * static_cast<std::int64_t>(PackedBytes(grouped.problem, packed)));
  };
  set(WorkPlane::kB, WeightPlane::kCodes, 3);
  set(WorkPlane::kBScales, WeightPlane::kScales, 3);
  set(WorkPlane::kBZeroPoints, WeightPlane::kZeroPoints, 3);
  EXPECT_TRUE(layout.PlanesFollowB(grouped));
  set(WorkPlane::kBZeroPoints, WeightPlane::kZeroPoints, 0);
  EXPECT_FALSE(layout.PlanesFollowB(grouped));
  set(WorkPlane::kBZeroPoints, WeightPlane::kZeroPoints, 3);
  set(WorkPlane::kBScales, WeightPlane::kScales, 1);
  EXPECT_FALSE(layout.PlanesFollowB(grouped));
}

// The tensor's scale is one for all.
TEST(PackedGroups, ShareTheTensorsScale) {
  DeviceWork grouped;
  grouped.problem = MakeProblem(8, 256, 512, DataType::kBf16, DataType::kBf16, false, true);
  grouped.problem.b.type = DataType::kFp4E2M1;
  grouped.problem.b_scaling = FindQuantFormat("nvfp4")->scaling;
  grouped.problem.b_packing = Packing::kStrips;
  StackBlock layout;
  layout.landed = grouped.problem;
  const auto bytes = [&](WeightPlane plane) {
    return static_cast<std::int64_t>(PackedBytes(grouped.problem, plane));
  };
  grouped.resident[WorkPlane::kB] = Staying(bytes(WeightPlane::kCodes));
  grouped.resident[WorkPlane::kBScales] = Staying(bytes(WeightPlane::kScales));
  grouped.resident[WorkPlane::kBTensorScale] = Staying(0);
  EXPECT_TRUE(layout.PlanesFollowB(grouped));
  grouped.resident[WorkPlane::kBTensorScale] = Staying(256);
  EXPECT_FALSE(layout.PlanesFollowB(grouped));
}

}  // namespace
}  // namespace gemmd
