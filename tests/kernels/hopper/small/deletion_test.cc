// Every wait, barrier and commit of small products is needed by a form.
#include <string>

#include "kernels/hopper/small/launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/hopper/small/direct_run.h"

namespace gemmd::testing {
namespace {

auto DirectRunOf(const Shape& shape, bool transpose_a, bool transpose_b) {
  return [=](const emulator::Options& options) {
    return RunDirect(shape, transpose_a, transpose_b, options);
  };
}

DeletionCheck SmallProducts() {
  return {{"kernels/hopper/small/product.h", "kernels/hopper/small/stage.h"},
          {},
          // Tiny ones; one warp, several stages and tiles; four warps.
          {DirectRunOf({16, 16, 16}, false, false), DirectRunOf({64, 34, 100}, false, true),
           DirectRunOf({70, 66, 130}, true, false)}};
}
DELETION_TEST(SmallProducts)

}  // namespace
}  // namespace gemmd::testing
