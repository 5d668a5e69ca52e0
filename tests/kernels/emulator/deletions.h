// Every wait, fence, barrier, arrival and commit of a kernel is needed: with any one left out, the
// emulator reports a broken rule or the product has wrong bits. A check states what it runs;
// DELETION_TEST makes a test of each call in its sources, and one that the list is whole.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

#include "kernels/emulator/options.h"

namespace gemmd::testing {

// A call that the kernel is right without, in the emulator's eyes.
struct RedundantCall {
  const char* source;
  const char* statement;  // white space as one blank
  int nth;                // from the top of the source, from 1
  const char* why;
};

// One that only brings a warp together again, for instructions that are .aligned: the emulator's
// threads never run as one, so that nothing is amiss there without it.
inline RedundantCall OnlyAligns(const char* source, int nth, const char* why) {
  return {source, "ptx::SyncWarp();", nth, why};
}

// Launches a kernel under these options, and says what was wrong or nothing.
using DeletionRun = std::function<std::string(const emulator::Options& options)>;

struct DeletionCheck {
  std::vector<const char*> sources;  // which are data of the test
  std::vector<RedundantCall> redundant;
  std::vector<DeletionRun> runs;  // for a few seeds, at random landing and at lazy
  // The folders of families whose sources this one uses, and whose own checks leave out their
  // calls.
  std::vector<const char*> tried_elsewhere = {};
};

// A run of one case, a shape for example.
template <class Case>
DeletionRun RunOf(std::string (*wrong)(const Case&, const emulator::Options&), const Case& which) {
  return [wrong, which](const emulator::Options& options) { return wrong(which, options); };
}

// Each of them with each case.
template <class Case>
std::vector<DeletionRun> RunsOf(
    std::initializer_list<std::string (*)(const Case&, const emulator::Options&)> all,
    std::initializer_list<Case> cases) {
  std::vector<DeletionRun> runs;
  for (const Case& which : cases) {
    for (const auto wrong : all) runs.push_back(RunOf(wrong, which));
  }
  return runs;
}

// A call of a synchronising wrapper, as it stands in the text.
struct SynchronisingCall {
  std::string source;
  std::string statement;
  int nth = 0;
  int first_line = 0;
  int last_line = 0;
};
std::ostream& operator<<(std::ostream& out, const SynchronisingCall& call);

// Lists the calls in the text of the sources, in order.
std::vector<SynchronisingCall> SynchronisingCalls(const DeletionCheck& check);

// Runs the check with this call left out: it must fail, or be listed as redundant.
void ExpectNeeded(const DeletionCheck& check, const SynchronisingCall& call);

// Runs the check as it is: it passes, its text and its run show the same calls but for those tried
// elsewhere, one a line at most, and every call listed as redundant is there.
void ExpectWhole(const DeletionCheck& check);

}  // namespace gemmd::testing

// `check` is a function that returns the same DeletionCheck each time.
#define DELETION_TEST(check)                                                                      \
  class check##DeletionTest                                                                       \
      : public ::testing::TestWithParam<::gemmd::testing::SynchronisingCall> {};                  \
  TEST_P(check##DeletionTest, IsNoticed) { ::gemmd::testing::ExpectNeeded(check(), GetParam()); } \
  INSTANTIATE_TEST_SUITE_P(EachCall, check##DeletionTest,                                         \
                           ::testing::ValuesIn(::gemmd::testing::SynchronisingCalls(check())));   \
  TEST(check##Deletions, AreOfEveryCall) { ::gemmd::testing::ExpectWhole(check()); }
