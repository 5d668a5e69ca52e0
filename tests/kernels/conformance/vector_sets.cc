#include "tests/kernels/conformance/vector_sets.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/kernels/conformance/random_bits.h"
#include "tests/kernels/conformance/tcgen05_form.h"

namespace gemmd::conformance {
namespace {

std::string DescribeLines(const Tcgen05Lines& lines) {
  return absl::StrCat(lines.is_mn_major ? "MN" : "K", "-major swizzle ", lines.span, " start ",
                      lines.start, " leading ", lines.leading, " stride ", lines.stride);
}

std::string DescribeTcgen05(std::uint32_t number, std::uint32_t block, std::uint64_t instruction) {
  const Tcgen05Form form = FormOf(Tcgen05SetOf(number), KeyOf(number, block, instruction));
  return absl::StrCat("; M ", form.rows, form.lane == 0 ? "" : " from lane 16", ", A ",
                      form.negate_a ? "negated " : "", DescribeLines(form.a), ", B ",
                      form.negate_b ? "negated " : "", DescribeLines(form.b), ", scale ids ",
                      form.a_scale_id, " ", form.b_scale_id,
                      form.accumulates ? ", accumulates" : "", ", read by ",
                      form.loads_16x256b ? "16x256b" : "32x32b");
}

}  // namespace

const char* Name(Card card) {
  switch (card) {
    case Card::kSm90:
      return "sm_90";
    case Card::kSm100:
      return "sm_100";
    case Card::kSm120:
      return "sm_120";
  }
  return "";
}

absl::optional<Card> CardOf(absl::string_view head) {
  for (const absl::string_view word : absl::StrSplit(head, absl::ByAnyChar(" ,;"))) {
    for (const Card card : kCards) {
      if (word == Name(card)) return card;
    }
  }
  return absl::nullopt;
}

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
  if (set.number >= kTcgen05Sets) {
    text += DescribeTcgen05(set.number, block, word / of_instruction);
  }
  return text;
}

}  // namespace gemmd::conformance
