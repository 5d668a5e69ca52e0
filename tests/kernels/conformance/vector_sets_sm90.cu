#include "tests/kernels/conformance/sm90_sets_list.h"

namespace gemmd::conformance {

std::vector<VectorSet> CudaVectorSets() { return MakeSm90Sets(); }

}  // namespace gemmd::conformance
