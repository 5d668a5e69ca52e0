// gemm kernels: what the server can run, and why it would choose what it would.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/table.h"
#include "client/wire/wire_types.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm kernels
  gemm kernels --explain 2048 2048 2048
  gemm kernels --explain 1 8192 8192 --type bf16 --output-type f32 --determinism fast
)";

struct KernelsArguments {
  std::vector<std::uint64_t> shape;  // M, N, K; empty without --explain
  std::optional<DataType> type;
  std::optional<DataType> output_type;
  bool transpose_a = false;
  bool transpose_b = false;
  Determinism determinism = Determinism::kBatchInvariant;
};

v1::ListKernelsRequest Request(const KernelsArguments& arguments) {
  v1::ListKernelsRequest request;
  if (arguments.shape.empty()) return request;
  v1::ProblemShape& problem = *request.mutable_explain();
  problem.set_m(arguments.shape[0]);
  problem.set_n(arguments.shape[1]);
  problem.set_k(arguments.shape[2]);
  if (arguments.type) problem.set_type(ToWire(*arguments.type));
  if (arguments.output_type) problem.set_output_type(ToWire(*arguments.output_type));
  problem.set_transpose_a(arguments.transpose_a);
  problem.set_transpose_b(arguments.transpose_b);
  problem.set_determinism(ToWire(arguments.determinism));
  return request;
}

std::string DescribeKernels(const v1::ListKernelsResponse& response) {
  Table table({{"kernel", Table::Align::kLeft},
               {"architecture", Table::Align::kLeft},
               {"determinism", Table::Align::kLeft},
               {"available", Table::Align::kLeft},
               {"description", Table::Align::kLeft}});
  for (const v1::Kernel& kernel : response.kernels()) {
    const std::string& reason = kernel.unavailable_reason();
    table.AddRow({kernel.name(), kernel.architecture(),
                  Word(v1::Determinism_Name(kernel.determinism())),
                  reason.empty() ? "yes" : absl::StrCat("no: ", reason), kernel.description()});
  }
  return table.Render();
}

// The chosen one first, then what else is possible, the quickest first.
std::vector<const v1::Candidate*> InOrder(const v1::ListKernelsResponse& response) {
  std::vector<const v1::Candidate*> candidates;
  candidates.reserve(static_cast<std::size_t>(response.candidates_size()));
  for (const v1::Candidate& candidate : response.candidates()) candidates.push_back(&candidate);
  const auto place = [](const v1::Candidate* candidate) {
    return std::make_tuple(!candidate->chosen(), !candidate->rejection().empty(),
                           candidate->predicted_us());
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const auto* x, const auto* y) { return place(x) < place(y); });
  return candidates;
}

std::string DescribeDecision(const v1::ListKernelsResponse& response) {
  Table table({{"candidate", Table::Align::kLeft},
               {"predicted us", Table::Align::kRight},
               {"verdict", Table::Align::kLeft}});
  for (const v1::Candidate* candidate : InOrder(response)) {
    const bool legal = candidate->rejection().empty();
    table.AddRow(
        {candidate->kernel(), legal ? Microseconds(candidate->predicted_us()) : "",
         legal ? absl::StrCat(candidate->chosen() ? "chosen" : "possible",
                              candidate->measured() ? " (measured): " : ": ", candidate->plan())
               : absl::StrCat("rejected: ", candidate->rejection())});
  }
  return table.Render();
}

Outcome RunKernels(const GlobalOptions& global, const KernelsArguments& arguments) {
  if (Outcome failure = WantOneServer(global, "kernels")) return failure;
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  const auto response = connection->ListKernels(Request(arguments), CallWithin(global.timeout));
  if (!response.ok()) return ServerFailure(global.server, response.status());
  if (global.json) {
    std::cout << ToJson(*response).dump() << "\n";
  } else if (arguments.shape.empty()) {
    std::cout << DescribeKernels(*response);
  } else {
    std::cout << DescribeDecision(*response);
  }
  return std::nullopt;
}

}  // namespace

void AddKernelsCommand(Commands& commands) {
  CLI::App& app =
      *commands.app.add_subcommand("kernels", "List kernels, or explain which one would be used");
  const auto arguments = std::make_shared<KernelsArguments>();
  CLI::Option* explain =
      app.add_option("--explain", arguments->shape, "Show the whole decision for this problem")
          ->expected(3)
          ->check(IsDimension())
          ->type_name("M N K");
  AddChoice(app, "--type", TypeChoices(), arguments->type, "Type of A and B; f32 unless given")
      ->needs(explain);
  AddChoice(app, "--output-type", TypeChoices(), arguments->output_type,
            "Type of D; A's, and int32 for int8, unless given")
      ->needs(explain);
  app.add_flag("--transpose-a", arguments->transpose_a, "A is stored transposed")->needs(explain);
  app.add_flag("--transpose-b", arguments->transpose_b, "B is stored transposed")->needs(explain);
  AddChoice(app, "--determinism", DeterminismChoices(), arguments->determinism,
            "What a row's bits may depend on")
      ->default_str("batch-invariant")
      ->needs(explain);
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunKernels(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
