// gemm tune: has the server measure its plans for some shapes and use the best.
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/table.h"
#include "client/wire/wire_types.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm tune 2048 2048 2048
  gemm tune 1 8192 8192 16 8192 8192 --type bf16 --repeats 20
  gemm kernels --explain 2048 2048 2048     # shows what was measured
)";

constexpr std::size_t kDimensions = 3;

struct TuneArguments {
  std::vector<std::uint64_t> dimensions;  // M, N, K of each shape in turn
  std::optional<DataType> type;
  std::optional<DataType> output_type;
  bool transpose_a = false;
  bool transpose_b = false;
  Determinism determinism = Determinism::kBatchInvariant;
  std::uint32_t repeats = 0;
};

v1::TuneRequest Request(const TuneArguments& arguments) {
  v1::TuneRequest request;
  request.set_repeats(arguments.repeats);
  for (std::size_t i = 0; i < arguments.dimensions.size(); i += kDimensions) {
    v1::ProblemShape& shape = *request.add_shapes();
    shape.set_m(arguments.dimensions[i]);
    shape.set_n(arguments.dimensions[i + 1]);
    shape.set_k(arguments.dimensions[i + 2]);
    if (arguments.type) shape.set_type(ToWire(*arguments.type));
    if (arguments.output_type) shape.set_output_type(ToWire(*arguments.output_type));
    shape.set_transpose_a(arguments.transpose_a);
    shape.set_transpose_b(arguments.transpose_b);
    shape.set_determinism(ToWire(arguments.determinism));
  }
  return request;
}

std::string Describe(const v1::TuneRequest& request, const v1::TuneResponse& response) {
  Table table({{"shape", Table::Align::kLeft},
               {"kernel", Table::Align::kLeft},
               {"measured us", Table::Align::kRight},
               {"verdict", Table::Align::kLeft}});
  for (int i = 0; i < response.shapes_size() && i < request.shapes_size(); ++i) {
    const v1::ProblemShape& shape = request.shapes(i);
    for (const v1::TunedCandidate& candidate : response.shapes(i).candidates()) {
      const bool measured = candidate.rejection().empty();
      table.AddRow(
          {absl::StrCat(shape.m(), "x", shape.n(), "x", shape.k()), candidate.kernel(),
           measured ? Microseconds(candidate.measured_us()) : "",
           measured ? absl::StrCat(candidate.chosen() ? "chosen: " : "slower: ", candidate.plan())
                    : absl::StrCat("rejected: ", candidate.rejection())});
    }
  }
  return table.Render();
}

Outcome RunTune(const GlobalOptions& global, const TuneArguments& arguments) {
  if (Outcome failure = WantOneServer(global, "tune")) return failure;
  if (arguments.dimensions.size() % kDimensions != 0) {
    return UsageFailure(
        absl::StrCat("M N K: ", arguments.dimensions.size(), " numbers; each shape has three"));
  }
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  const v1::TuneRequest request = Request(arguments);
  const auto response = connection->Tune(request, CallWithin(global.timeout));
  if (!response.ok()) return ServerFailure(global.server, response.status());
  if (global.json) {
    std::cout << ToJson(*response).dump() << "\n";
  } else {
    std::cout << Describe(request, *response);
  }
  return std::nullopt;
}

}  // namespace

void AddTuneCommand(Commands& commands) {
  CLI::App& app =
      *commands.app.add_subcommand("tune", "Measure the plans for shapes, and use the best");
  const auto arguments = std::make_shared<TuneArguments>();
  app.add_option("shapes", arguments->dimensions, "Shapes, three numbers each")
      ->required()
      ->check(IsDimension())
      ->type_name("M N K");
  AddChoice(app, "--type", TypeChoices(), arguments->type, "Type of A and B; f32 unless given");
  AddChoice(app, "--output-type", TypeChoices(), arguments->output_type,
            "Type of D; A's, and int32 for int8, unless given");
  app.add_flag("--transpose-a", arguments->transpose_a, "A is stored transposed");
  app.add_flag("--transpose-b", arguments->transpose_b, "B is stored transposed");
  AddChoice(app, "--determinism", DeterminismChoices(), arguments->determinism,
            "What a row's bits may depend on")
      ->default_str("batch-invariant");
  app.add_option("--repeats", arguments->repeats, "Launches of each plan; 5 unless given")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunTune(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
