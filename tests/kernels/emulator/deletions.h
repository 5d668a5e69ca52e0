// Every wait, fence, barrier, arrival and commit of a kernel is needed: with any one left out, the
// emulator reports a broken rule or the product has wrong bits. A check states what it runs;
// DELETION_TEST makes a test of each call in its sources, and one that the list is whole.
#pragma once

#include <gtest/gtest.h>

#include <functional>
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

struct DeletionCheck {
  std::vector<const char*> sources;  // which are data of the test
  std::vector<RedundantCall> redundant;
  // Each launches a kernel under these options, and says what was wrong or nothing. They are
  // called for a few seeds, at random landing and at lazy.
  std::vector<std::function<std::string(const emulator::Options& options)>> runs;
};

// A call of a synchronising wrapper, as it stands in the text.
struct SynchronisingCall {
  std::string source;
  std::string statement;
  int nth = 0;
  int first_line = 0;
  int last_line = 0;
};
std::ostream& operator<<(std::ostream& out, const SynchronisingCall& call);

// From the text of the sources, in order.
std::vector<SynchronisingCall> SynchronisingCalls(const DeletionCheck& check);

// Runs the check with this call left out: it must fail, or be listed as redundant.
void ExpectNeeded(const DeletionCheck& check, const SynchronisingCall& call);

// Runs the check as it is: it passes, its text and its run show the same calls, one a line at
// most, and every call listed as redundant is there.
void ExpectWhole(const DeletionCheck& check);

}  // namespace gemmd::testing

// `check` is a function that returns the same DeletionCheck each time.
#define DELETION_TEST(family, check)                                                               \
  class family##DeletionTest                                                                       \
      : public ::testing::TestWithParam<::gemmd::testing::SynchronisingCall> {};                   \
  TEST_P(family##DeletionTest, IsNoticed) { ::gemmd::testing::ExpectNeeded(check(), GetParam()); } \
  INSTANTIATE_TEST_SUITE_P(EachCall, family##DeletionTest,                                         \
                           ::testing::ValuesIn(::gemmd::testing::SynchronisingCalls(check())));    \
  TEST(family##Deletions, AreOfEveryCall) { ::gemmd::testing::ExpectWhole(check()); }
