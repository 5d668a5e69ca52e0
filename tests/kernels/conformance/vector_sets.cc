#include "tests/kernels/conformance/vector_sets.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/kernels/conformance/random_bits.h"

namespace gemmd::conformance {

std::uint64_t BlockHash(const std::uint64_t* threads, std::uint32_t count) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) sum += threads[i];
  return Mix(sum);
}

std::string Describe(const VectorSet& set, std::uint32_t block, std::uint64_t word) {
  const std::uint64_t of_instruction = std::uint64_t{set.threads} * set.words;
  std::string text =
      absl::StrCat(set.name, ", block ", block, ", instruction ", word / of_instruction,
                   ", thread ", word % of_instruction / set.words, ", word ", word % set.words);
  if (absl::StrContains(set.name, "mma")) {
    absl::StrAppend(&text, ", operands ", Name(static_cast<OperandClass>(block % kOperandClasses)));
  }
  return text;
}

}  // namespace gemmd::conformance
