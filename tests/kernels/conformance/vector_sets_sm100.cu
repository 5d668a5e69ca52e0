#include "tests/kernels/conformance/sm100_sets_list.h"

namespace gemmd::conformance {

std::vector<VectorSet> CudaVectorSets() { return MakeSm100Sets(); }

}  // namespace gemmd::conformance
