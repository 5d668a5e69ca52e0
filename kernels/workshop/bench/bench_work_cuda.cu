#include "kernels/workshop/bench/bench_work_launch.h"

namespace gemmd::bench {

BenchWork CudaBenchWork() { return MakeBenchWork(); }

}  // namespace gemmd::bench
