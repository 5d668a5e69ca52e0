#include "tests/kernels/conformance/vector_sets_list.h"

namespace gemmd::conformance {

std::vector<VectorSet> CudaVectorSets() { return MakeVectorSets(); }

}  // namespace gemmd::conformance
