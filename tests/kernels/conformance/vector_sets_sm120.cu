#include "tests/kernels/conformance/sm120_sets_list.h"

namespace gemmd::conformance {

std::vector<VectorSet> CudaVectorSets() { return MakeSm120Sets(); }

}  // namespace gemmd::conformance
