#include "tests/kernels/conformance/sm100_sets_list.h"
#include "tests/kernels/conformance/sm120_sets_list.h"
#include "tests/kernels/conformance/sm90_sets_list.h"

namespace gemmd::conformance {

std::vector<VectorSet> EmulatedVectorSets(Card card) {
  switch (card) {
    case Card::kSm90:
      return MakeSm90Sets();
    case Card::kSm100:
      return MakeSm100Sets();
    case Card::kSm120:
      return MakeSm120Sets();
  }
  return {};
}

}  // namespace gemmd::conformance
