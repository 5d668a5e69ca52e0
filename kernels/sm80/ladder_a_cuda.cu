#include "kernels/sm80/ladder_a_entries.h"
#include "kernels/sm80/ladder_a_launch.h"

namespace gemmd::sm80 {

LadderALaunch CudaLadderA(int step) {
  static constexpr LadderALaunch kLaunches[kLadderASteps] = {
      LaunchLadderA<A01a>, LaunchLadderA<A01b>, LaunchLadderA<A02>,
      LaunchLadderA<A03>,  LaunchLadderA<A04>,  LaunchLadderA<A05>};
  return kLaunches[step];
}

}  // namespace gemmd::sm80
