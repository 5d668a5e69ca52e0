// A registry kernel launched the way a device launches it: by name, through Kernel, in an
// emulator session; several OS threads at once.
#include "kernels/emulator/session.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "kernels/gemm.h"
#include "tests/kernels/emulator/half_matrix.h"

namespace gemmd::testing {
namespace {

constexpr ProductForm kForm = ProductForm::kF16AccumulateF32;

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : a_(40, 64), b_(64, 48) {
    a_.FillRandom(FormatOf(kForm), 1);
    b_.FillRandom(FormatOf(kForm), 2);
    problem_ = MakeProblem(40, 48, 64, DataType::kF16, DataType::kF16);
  }

  absl::Status Launch(HalfMatrix* d, emulator::Session* session) const {
    Arguments arguments;
    arguments.a = a_.data();
    arguments.b = b_.data();
    arguments.d = d->data();
    LaunchTarget target;
    target.emulator = session;
    return BuiltinRegistry().Find("sm80/a03b")->Launch(problem_, Config(), arguments, target);
  }

  HalfMatrix a_;
  HalfMatrix b_;
  Problem problem_;
};

TEST_F(SessionTest, LeavesTheProductAndAReport) {
  HalfMatrix d(40, 48);
  emulator::Session session;
  EXPECT_TRUE(Launch(&d, &session).ok());
  EXPECT_EQ(CountDifferent(d, ExactProduct(kForm, a_, b_, false)), 0);
  EXPECT_GT(session.report.statistics.turns, 0u);
}

TEST_F(SessionTest, TurnsAViolationIntoAStatusThatSaysWhere) {
  HalfMatrix d(40, 48);
  emulator::Session session;
  problem_.b.rows = 32;  // half of B, as a host that miscounted would have it
  const absl::Status status = Launch(&d, &session);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("out of bounds"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("kernel sm80/a03b, block (0, 0), thread"),
            absl::string_view::npos)
      << status;
}

TEST_F(SessionTest, RunsOnSeveralOsThreadsAtOnce) {
  const std::vector<std::uint16_t> expected = ExactProduct(kForm, a_, b_, false);
  std::vector<std::thread> threads;
  std::vector<std::int64_t> different(4, -1);
  for (std::size_t i = 0; i < different.size(); ++i) {
    threads.emplace_back([&, i] {
      HalfMatrix d(40, 48);
      emulator::Session session;
      session.options.seed = i;
      if (Launch(&d, &session).ok()) different[i] = CountDifferent(d, expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, std::vector<std::int64_t>(4, 0));
}

}  // namespace
}  // namespace gemmd::testing
