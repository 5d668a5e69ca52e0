#include "kernels/sm90f32/entries.h"
#include "kernels/sm90f32/launch.h"

namespace gemmd::sm90f32 {

absl::Status CudaProduct(int tiling, const Problem& problem, const Config& config,
                         const Arguments& arguments, const LaunchTarget& target) {
  return LaunchProduct(tiling, problem, config, arguments, target);
}

}  // namespace gemmd::sm90f32
