#include "server/device/partial_executor.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/thread_executor.h"

namespace gemmd {
namespace {

// The loops of a launch, which write down what is carried out.
class Kernel {
 public:
  explicit Kernel(const std::vector<std::int64_t>& counts) {
    for (const std::int64_t count : counts) loops_.emplace_back(count);
  }

  // `is_over` is set behind the index of that number among all; -1: never.
  void Launch(ParallelExecutor* executor, std::atomic<bool>* is_over, std::int64_t over_behind) {
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      executor->Run(static_cast<std::int64_t>(loops_[i].size()),
                    [&, i](int worker, std::int64_t index) {
                      EXPECT_LT(worker, executor->workers());
                      EXPECT_EQ(loops_[i][index].fetch_add(1), 0) << i << " " << index;
                      if (i > 0) {
                        EXPECT_EQ(done_in(i - 1), loops_[i - 1].size());
                      }
                      if (calls_.fetch_add(1) == over_behind) *is_over = true;
                    });
    }
  }

  // Indices that were carried out, the first ones of each loop.
  std::size_t done_in(std::size_t loop) const {
    std::size_t done = 0;
    while (done < loops_[loop].size() && loops_[loop][done] > 0) ++done;
    for (std::size_t i = done; i < loops_[loop].size(); ++i) EXPECT_EQ(loops_[loop][i], 0);
    return done;
  }
  std::size_t done_in_last() const { return done_in(loops_.size() - 1); }
  bool is_done() const {
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      if (done_in(i) < loops_[i].size()) return false;
    }
    return true;
  }
  std::int64_t calls() const { return calls_; }

 private:
  std::vector<std::vector<std::atomic<int>>> loops_;
  std::atomic<std::int64_t> calls_ = 0;
};

// Indices of the last loop, by part.
std::vector<std::size_t> Sizes(const std::vector<std::int64_t>& counts, int parts, int workers) {
  ThreadExecutor threads(workers);
  PartialExecutor executor(parts, &threads);
  Kernel kernel(counts);
  std::vector<std::size_t> sizes;
  std::size_t done = 0;
  for (int part = 0; part < parts; part = executor.parts_done()) {
    executor.Begin(part, part + 1, nullptr);
    kernel.Launch(&executor, nullptr, -1);
    sizes.push_back(kernel.done_in_last() - done);
    done += sizes.back();
  }
  EXPECT_TRUE(kernel.is_done());
  return sizes;
}

TEST(PartialExecutor, PartsAreEqual) {
  EXPECT_EQ(Sizes({12}, 3, 2), std::vector<std::size_t>(3, 4));
  EXPECT_EQ(Sizes({64}, 4, 16), std::vector<std::size_t>(4, 16));
  EXPECT_EQ(Sizes({7}, 1, 2), (std::vector<std::size_t>{7}));
}

TEST(PartialExecutor, NoWorkerIsIdleInAPart) {
  EXPECT_EQ(Sizes({10}, 1000, 4), (std::vector<std::size_t>{4, 4, 2}));
  EXPECT_EQ(Sizes({3}, PartialExecutor::kMostParts, 4), (std::vector<std::size_t>{3}));
  EXPECT_EQ(Sizes({0}, 5, 2), (std::vector<std::size_t>{0}));
}

// It is not known of the first launch's first loop that another follows.
TEST(PartialExecutor, WhatTheLastLoopReadsIsMadeReadyFirst) {
  EXPECT_EQ(Sizes({9, 12}, 4, 3), (std::vector<std::size_t>{0, 6, 3, 3}));
  EXPECT_EQ(Sizes({9, 5, 12}, 4, 3), (std::vector<std::size_t>{0, 6, 3, 3}));
}

TEST(PartialExecutor, AKernelWithoutLoopsIsDoneAtOnce) {
  ThreadExecutor threads(2);
  PartialExecutor executor(7, &threads);
  executor.Begin(0, 1, nullptr);
  EXPECT_EQ(executor.parts_done(), 7);
}

TEST(PartialExecutor, GoesOnUntilItsTurnIsOver) {
  ThreadExecutor threads(1);
  PartialExecutor executor(10, &threads);
  Kernel kernel({100});
  std::atomic<bool> is_over = false;
  executor.Begin(0, 8, &is_over);
  kernel.Launch(&executor, &is_over, 34);
  EXPECT_EQ(kernel.done_in_last(), 35u);
  EXPECT_EQ(executor.parts_done(), 3);
  // Over before it begins: it carries out its own part, and what was begun of it counts.
  executor.Begin(3, 8, &is_over);
  kernel.Launch(&executor, &is_over, -1);
  EXPECT_EQ(kernel.done_in_last(), 40u);
  EXPECT_EQ(executor.parts_done(), 4);
  is_over = false;
  executor.Begin(4, 8, &is_over);
  kernel.Launch(&executor, &is_over, -1);
  EXPECT_EQ(kernel.done_in_last(), 80u);
  EXPECT_EQ(executor.parts_done(), 8);
}

TEST(PartialExecutor, EachIndexIsCarriedOutOnceWhateverTheHistory) {
  std::mt19937 random(17);
  const auto draw = [&random](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  for (int history = 0; history < 400; ++history) {
    ThreadExecutor threads(1 + draw(4));
    const int parts = 1 + draw(30);
    PartialExecutor executor(parts, &threads);
    std::vector<std::int64_t> counts;
    for (int loops = 1 + draw(3); loops > 0; --loops) counts.push_back(draw(60));
    Kernel kernel(counts);
    int launches = 0;
    for (int done = 0; done < parts; ++launches) {
      ASSERT_FALSE(done > 0 && kernel.is_done() && counts.size() == 1);
      std::atomic<bool> is_over = draw(4) == 0;
      executor.Begin(done, done + 1 + draw(parts - done), draw(5) == 0 ? nullptr : &is_over);
      kernel.Launch(&executor, &is_over, kernel.calls() + draw(20));
      ASSERT_GT(executor.parts_done(), done);
      done = executor.parts_done();
      ASSERT_LE(done, parts);
      ASSERT_EQ(done == parts, kernel.is_done());
    }
    ASSERT_LE(launches, parts);
  }
}

}  // namespace
}  // namespace gemmd
