#include "kernels/sm90/ragged_entries.h"
#include "kernels/sm90/ragged_launch.h"

namespace gemmd::sm90 {

absl::Status EmulatedRaggedGemm(const Problem& problem, const Arguments& arguments,
                                const LaunchTarget& target) {
  return LaunchRaggedGemm(problem, arguments, target);
}

absl::Status EmulatedRepack(const Problem& problem, const Arguments& arguments,
                            const LaunchTarget& target) {
  return LaunchRepackOfBoth(problem, arguments, target);
}

}  // namespace gemmd::sm90
