#include "kernels/workshop/bench/bench_work.h"

namespace gemmd::bench {

BenchWork CudaBenchWork() { return {}; }

}  // namespace gemmd::bench
