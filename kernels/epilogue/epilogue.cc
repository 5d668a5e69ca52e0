#include "kernels/epilogue/epilogue.h"

#include "absl/strings/str_cat.h"
#include "kernels/epilogue/epilogue_kernel_entries.h"

namespace gemmd {

std::string EpilogueRejection(DataType product_type, DataType output_type) {
  const bool is_narrow = output_type == DataType::kF32 || output_type == DataType::kF16 ||
                         output_type == DataType::kBf16;
  switch (product_type) {
    case DataType::kF64:
      if (is_narrow || output_type == DataType::kF64) return "";
      break;
    case DataType::kF32:
    case DataType::kF16:
    case DataType::kInt32:
      if (is_narrow) return "";
      break;
    default:
      break;
  }
  return absl::StrCat("has no epilogue from ", Name(product_type), " to ", Name(output_type));
}

absl::Status LaunchEpilogue(const Problem& problem, const Product& product,
                            const Arguments& arguments, const LaunchTarget& target) {
  const std::string rejection = EpilogueRejection(product.type, problem.d.type);
  if (!rejection.empty()) return absl::InvalidArgumentError(rejection);
  return epilogue::EpilogueFor(target)(problem, product, arguments, target);
}

}  // namespace gemmd
