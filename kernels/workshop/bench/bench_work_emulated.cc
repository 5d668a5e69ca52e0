#include "kernels/workshop/bench/bench_work_launch.h"

namespace gemmd::bench {

BenchWork EmulatedBenchWork() { return MakeBenchWork(); }

}  // namespace gemmd::bench
