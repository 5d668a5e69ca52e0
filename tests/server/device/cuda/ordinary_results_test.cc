// Results that are larger than all page-locked memory come back through the drain ring: the same
// bytes, and the same ends where something fails.
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/server/device/cuda/cuda_fixture.h"

namespace gemmd {
namespace {

using testing::Distribution;
using testing::kMiB;
using testing::Operands;

constexpr std::uint64_t kSmallPool = 16 * kMiB;  // of which 14 are for large planes

class OrdinaryResultsTest : public testing::CudaDeviceTest {
 protected:
  // A device whose page-locked memory holds D, or does not.
  void StartWith(std::uint64_t pinned_bytes, std::uint32_t seed,
                 std::uint64_t memory_bytes = 256 * kMiB) {
    pinned_bytes_ = pinned_bytes;
    Start(seed, memory_bytes);
  }

  // D, with the bytes between its lines as they were; the status where there is none.
  std::string Result(const Problem& problem, const Operands& operands, bool in_slices = false) {
    DeviceWork work = MakeWork(problem, operands);
    for (const HostPiece& piece : work.buffers.d) std::memset(piece.data, 'x', piece.size_bytes);
    std::vector<DeviceLaunch> launches;
    if (in_slices) {
      std::shared_ptr<SlicedWork> sliced = device_->Cut(work, 1);
      EXPECT_NE(sliced, nullptr);
      for (int i = 0; i < sliced->slices(); ++i) launches.push_back(DeviceLaunch::Slice(sliced, i));
    } else {
      launches.push_back(work);
    }
    std::vector<std::future<DeviceResult>> ends;
    for (DeviceLaunch& launch : launches) {
      auto promise = std::make_shared<std::promise<DeviceResult>>();
      ends.push_back(promise->get_future());
      device_->Submit(std::move(launch),
                      [promise](DeviceResult done) { promise->set_value(std::move(done)); });
    }
    absl::Status status;
    for (std::future<DeviceResult>& end : ends) status.Update(end.get().status);
    if (!status.ok()) return status.ToString();
    std::string bytes;
    for (const HostPiece& piece : work.buffers.d) bytes.append(piece.data, piece.size_bytes);
    return bytes;
  }

  const Problem problem_ = MakeProblem(1000, 1900, 20, DataType::kF64, DataType::kF64);
};

TEST_F(OrdinaryResultsTest, AreThoseOfPageLockedMemory) {
  std::vector<Problem> problems = {problem_};
  problems.push_back(MakeProblem(3001, 2600, 3, DataType::kBf16, DataType::kBf16));
  problems.push_back(MakeProblem(7, 300000, 2, DataType::kF64, DataType::kF64));  // long lines
  Problem by_columns = problem_;
  by_columns.d.order = Order::kColumnMajor;
  by_columns.d.leading_dimension = 1913;
  problems.push_back(by_columns);
  std::uint32_t seed = 0;
  for (const Problem& problem : problems) {
    SCOPED_TRACE(ToString(problem));
    const Operands operands(problem, Distribution::kNormal, ++seed);
    StartWith(64 * kMiB, seed);
    const std::string expected = Result(problem, operands);
    ASSERT_EQ(expected.size(), problem.d.size_bytes());
    StartWith(kSmallPool, seed);
    EXPECT_TRUE(Result(problem, operands) == expected);
    EXPECT_EQ(device_->host_memory_usage().in_flight_bytes, 0U);
    EXPECT_TRUE(AllIsFree());
  }
}

// The last two runs have a device that does not hold the product either.
TEST_F(OrdinaryResultsTest, ComeInPartsAndInSlices) {
  const Operands operands(problem_, Distribution::kNormal, 1);
  StartWith(64 * kMiB, 1);
  const std::string expected = Result(problem_, operands);
  StartWith(kSmallPool, 1);
  EXPECT_TRUE(Result(problem_, operands, true) == expected);
  StartWith(kSmallPool, 1, 8 * kMiB);
  EXPECT_TRUE(Result(problem_, operands) == expected);
  EXPECT_TRUE(Result(problem_, operands, true) == expected);
  EXPECT_TRUE(AllIsFree());
}

TEST_F(OrdinaryResultsTest, SeveralAtOnce) {
  StartWith(kSmallPool, 3);
  const Operands operands(problem_, Distribution::kNormal, 1);
  const std::string expected = Result(problem_, operands);
  std::vector<DeviceWork> works;
  std::vector<std::future<DeviceResult>> ends;
  for (int i = 0; i < 6; ++i) works.push_back(MakeWork(problem_, operands));
  for (const DeviceWork& work : works) ends.push_back(Submit(work));
  for (std::future<DeviceResult>& end : ends) {
    const DeviceResult result = end.get();
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.copied.out, problem_.d.size_bytes());
  }
  for (const DeviceWork& work : works) {
    EXPECT_EQ(std::memcmp(work.buffers.d.front().data, expected.data(), expected.size()), 0);
  }
}

TEST_F(OrdinaryResultsTest, AFaultFailsItsWorkAlone) {
  const Operands operands(problem_, Distribution::kNormal, 1);
  StartWith(64 * kMiB, 4);
  const std::string expected = Result(problem_, operands);
  const std::pair<const char*, int> faults[] = {{"Copy", 0},   {"Copy", 5},   {"Copy", 15},
                                                {"Record", 2}, {"Record", 8}, {"Record", 12},
                                                {"Launch", 0}, {"Launch", 1}, {"Wait", 2}};
  for (const auto& [method, skip] : faults) {
    SCOPED_TRACE(std::string(method) + " " + std::to_string(skip));
    StartWith(kSmallPool, 4);
    cuda_->FailCall(method, absl::InternalError("a fault"), skip);
    EXPECT_TRUE(Result(problem_, operands) == "INTERNAL: a fault");
    EXPECT_TRUE(Result(problem_, operands) == expected);
    EXPECT_TRUE(lost_.empty());
    EXPECT_TRUE(AllIsFree());
  }
}

TEST_F(OrdinaryResultsTest, ALostDeviceEndsThem) {
  const Operands operands(problem_, Distribution::kNormal, 1);
  for (const char* method : {"Copy", "Record", "IsDone"}) {
    for (const int skip : {0, 3, 15}) {
      SCOPED_TRACE(std::string(method) + " " + std::to_string(skip));
      lost_.clear();
      StartWith(kSmallPool, 5);
      cuda_->FailCall(method, absl::UnavailableError("cudaErrorIllegalAddress"), skip);
      EXPECT_TRUE(absl::StrContains(Result(problem_, operands), "device cuda:0 is lost"));
      EXPECT_EQ(lost_.size(), 1U);
    }
  }
}

TEST_F(OrdinaryResultsTest, AreToldThoughTheDeviceIsGone) {
  StartWith(kSmallPool, 6);
  const Operands operands(problem_, Distribution::kNormal, 1);
  std::vector<DeviceWork> works;
  std::vector<std::future<DeviceResult>> ends;
  for (int i = 0; i < 3; ++i) works.push_back(MakeWork(problem_, operands));
  for (const DeviceWork& work : works) ends.push_back(Submit(work));
  device_.reset();
  for (std::future<DeviceResult>& end : ends) EXPECT_TRUE(end.get().status.ok());
}

}  // namespace
}  // namespace gemmd
