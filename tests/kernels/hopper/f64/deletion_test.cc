// Every wait, fence, barrier, arrival and commit of the f64 product is needed by a tiling.
#include <string>

#include "kernels/hopper/f64/launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/hopper/f64/direct_run.h"

namespace gemmd::testing {
namespace {

constexpr int kTiling = PlaceOf(hopper::f64::kTilings, 64, 8);

template <ptx::Major kRowMajor, ptx::Major kColumnMajor>
auto DirectRunOf(const Shape& shape, const DirectRun& direct) {
  return [=](const emulator::Options& options) {
    return RunDirect<kTiling, kRowMajor, kColumnMajor>(shape, direct, options);
  };
}

constexpr ptx::Major kK = ptx::Major::kK;
constexpr ptx::Major kMn = ptx::Major::kMn;

DeletionCheck F64Product() {
  return {{"kernels/hopper/f64/consumer.h", "kernels/hopper/f64/producer.h",
           "kernels/hopper/f64/product.h"},
          {
              OnlyAligns("kernels/hopper/f64/product.h", 1, "for the next barrier alone"),
              OnlyAligns("kernels/hopper/f64/product.h", 2, "for the next barrier alone"),
              OnlyAligns("kernels/hopper/f64/product.h", 3, "nothing comes after it"),
          },
          // Several tiles for a block, more stages of K than the ring has; TMA in its turn and
          // ahead of it; elements.
          {DirectRunOf<kK, kMn>({20, 400, 400}, {}),
           DirectRunOf<kMn, kK>({20, 400, 400}, {true, true, true}),
           DirectRunOf<kK, kK>({20, 400, 401}, {false})}};
}
DELETION_TEST(F64Product)

}  // namespace
}  // namespace gemmd::testing
