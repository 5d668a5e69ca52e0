#include "kernels/sm90/ragged_entries.h"
#include "kernels/sm90/ragged_launch.h"

namespace gemmd::sm90 {

absl::Status EmulatedRaggedGemm(const Problem& problem, const Config& config,
                                const Arguments& arguments, const LaunchTarget& target) {
  return LaunchRaggedGemm(problem, config, arguments, target);
}

}  // namespace gemmd::sm90
