#include "server/observe/receipt.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// Lower is charged first.
int Rank(Stage stage) {
  switch (stage) {
    case Stage::kCompute:
      return 0;
    case Stage::kCopyIn:
      return 1;
    case Stage::kCopyOut:
      return 2;
    case Stage::kVerify:
      return 3;
    case Stage::kDecode:
      return 4;
    case Stage::kAdmission:
      return 5;
    case Stage::kEncode:
      return 6;
    case Stage::kReceive:
      return 7;
    case Stage::kQueue:
      return 8;
  }
  return 9;
}

std::string OperandText(DataType type, const Scaling& scaling) {
  if (scaling == Scaling::kNone) return std::string(Name(type));
  return absl::StrCat(Name(type), "(", Name(scaling), ")");
}

}  // namespace

absl::string_view Name(Stage stage) {
  switch (stage) {
    case Stage::kDecode:
      return "decode";
    case Stage::kAdmission:
      return "admission";
    case Stage::kQueue:
      return "queue";
    case Stage::kCopyIn:
      return "copy_in";
    case Stage::kCompute:
      return "compute";
    case Stage::kCopyOut:
      return "copy_out";
    case Stage::kEncode:
      return "encode";
    case Stage::kReceive:
      return "receive";
    case Stage::kVerify:
      return "verify";
  }
  return "?";
}

std::string TypesOf(const Problem& problem) {
  const DataType type = problem.d.type;
  if (problem.a.type == type && problem.b.type == type && problem.a_scaling == Scaling::kNone &&
      problem.b_scaling == Scaling::kNone) {
    return std::string(Name(type));
  }
  return absl::StrCat(OperandText(problem.a.type, problem.a_scaling), ",",
                      OperandText(problem.b.type, problem.b_scaling), "->", Name(type));
}

std::string ShapeOf(const Receipt& receipt) {
  return absl::StrCat(receipt.m, "x", receipt.n, "x", receipt.k);
}

std::string TraceparentOf(const Receipt& receipt) {
  return receipt.trace.context.has_value() ? ToTraceparent(*receipt.trace.context) : "";
}

Attribution Attribute(const Receipt& receipt) {
  Attribution result;
  result.exposed.assign(receipt.spans.size(), 0);
  result.total = std::max<TimeNs>(0, receipt.finish - receipt.arrival);

  // Between two neighbouring boundaries the set of running spans does not change.
  std::vector<TimeNs> boundaries = {receipt.arrival, receipt.finish};
  for (const StageSpan& span : receipt.spans) {
    boundaries.push_back(std::clamp(span.start, receipt.arrival, receipt.finish));
    boundaries.push_back(std::clamp(span.end, receipt.arrival, receipt.finish));
  }
  std::sort(boundaries.begin(), boundaries.end());
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    const TimeNs start = boundaries[i - 1];
    const TimeNs end = boundaries[i];
    if (start == end) continue;
    std::ptrdiff_t accountable = -1;
    for (std::size_t s = 0; s < receipt.spans.size(); ++s) {
      const StageSpan& span = receipt.spans[s];
      if (span.start > start || span.end < end) continue;
      if (accountable < 0 || Rank(span.stage) < Rank(receipt.spans[accountable].stage)) {
        accountable = static_cast<std::ptrdiff_t>(s);
      }
    }
    (accountable < 0 ? result.unattributed : result.exposed[accountable]) += end - start;
  }
  return result;
}

double AchievedGflops(const Receipt& receipt) {
  TimeNs compute = 0;
  for (const StageSpan& span : receipt.spans) {
    if (span.stage == Stage::kCompute) compute += span.end - span.start;
  }
  return compute > 0 ? receipt.batch_flops / static_cast<double>(compute) : 0;
}

}  // namespace gemmd
