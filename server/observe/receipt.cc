#include "server/observe/receipt.h"

#include <algorithm>
#include <set>
#include <utility>

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
  const std::string rows =
      receipt.are_groups ? absl::StrCat(receipt.m, "/", receipt.products) : absl::StrCat(receipt.m);
  const std::string shape = absl::StrCat(rows, "x", receipt.n, "x", receipt.k);
  const bool is_one = receipt.products == 1 || receipt.are_groups;
  return is_one ? shape : absl::StrCat(receipt.products, "*", shape);
}

std::string TraceparentOf(const Receipt& receipt) {
  return receipt.trace.context.has_value() ? ToTraceparent(*receipt.trace.context) : "";
}

Attribution Attribute(const Receipt& receipt) {
  // A long work in many slices has as many spans, so this sorts them once.
  struct Edge {
    TimeNs at = 0;
    std::size_t span = 0;
    bool begins = false;
  };
  const TimeNs finish = std::max(receipt.arrival, receipt.finish);
  std::vector<Edge> edges;
  edges.reserve(2 * receipt.spans.size());
  for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
    const StageSpan& span = receipt.spans[i];
    const TimeNs start = std::clamp(span.start, receipt.arrival, finish);
    const TimeNs end = std::clamp(span.end, receipt.arrival, finish);
    if (start == end) continue;
    edges.push_back({start, i, true});
    edges.push_back({end, i, false});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& x, const Edge& y) { return x.at < y.at; });

  Attribution result;
  result.exposed.assign(receipt.spans.size(), 0);
  result.total = finish - receipt.arrival;
  std::set<std::pair<int, std::size_t>> running;  // by rank, then by place
  TimeNs charged_until = receipt.arrival;
  const auto charge = [&](TimeNs until) {
    (running.empty() ? result.unattributed : result.exposed[running.begin()->second]) +=
        until - charged_until;
    charged_until = until;
  };
  for (const Edge& edge : edges) {
    charge(edge.at);
    const std::pair<int, std::size_t> span = {Rank(receipt.spans[edge.span].stage), edge.span};
    if (edge.begins) {
      running.insert(span);
    } else {
      running.erase(span);
    }
  }
  charge(finish);
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
