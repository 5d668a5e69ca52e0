// gemm matmul: one product from files to a file.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/operand_name.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/matmul_operands.h"
#include "client/cli/files/output_file.h"
#include "client/cli/files/quantize_options.h"
#include "client/cli/files/scale_files.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/product_report.h"
#include "client/matmul.h"
#include "client/operands.h"
#include "client/quantized/product_error.h"
#include "client/split/split_matmul.h"
#include "client/wire/trace_headers.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm matmul A.npy B.npy -o D.npy
  gemm matmul - B.npy -o - < A.npy > D.npy            # the report goes to standard error
  gemm matmul X.npy W.npy -o Y.npy --transpose-b --bias b.npy --activation gelu-tanh
  gemm matmul As.npy Bs.npy -o Ds.npy --transpose-b   # of three dimensions: many products
  gemm matmul A.npy B.npy --alpha 0.5 --beta 1 --c C.npy -o D.npy
  gemm matmul A.bin B.npy --shape a=1500x1700 --type bf16 --output-type f32 -o D.npy
  gemm matmul Q.npy W.npy --type fp8-e4m3 --a-scales q.npy --b-scales w.npy -o D.npy
  gemm matmul A.npy F.npy --type b=mxfp4 --b-scales f.npy -o D.npy
  gemm matmul A.npy W.gq -o D.npy                     # of gemm quantize
  gemm matmul A.npy B.npy --quantize-a int8-row --quantize-b int8-row --report-error -o D.npy
  gemm --json matmul A.npy B.npy --deadline 250ms
  gemm matmul A.npy B.npy -o D.npy --verify 3         # the receipt has the residual
  gemm matmul A.npy @a1b2c3d4-7 -o D.npy              # B stays on the server (gemm put)
  gemm matmul A.npy @a1b2c3d4-7 --keep --lease 1h     # and so does D
  gemm matmul A.npy @encoder.w --keep --name hidden   # by names: D is @hidden from now on
  gemm --servers gpu-1,gpu-2 matmul A.npy B.npy --split -o D.npy
)";

struct MatmulArguments {
  OperandsArguments operands;
  std::string output;
  client::MatmulOptions options;
  absl::Duration deadline;  // zero: the global timeout
  client::RouteOptions route;
  bool split = false;
  bool keep = false;
  absl::Duration lease;
  bool has_lease = false;
  std::string name;  // of what is kept; empty: none
  bool replace = false;
  client::TraceHeaders trace;
};

const Choices<v1::Priority>& PriorityChoices() {
  static const auto& choices = *new Choices<v1::Priority>{
      {"low", v1::PRIORITY_LOW}, {"normal", v1::PRIORITY_NORMAL}, {"high", v1::PRIORITY_HIGH}};
  return choices;
}

void AddFileOptions(CLI::App& app, MatmulArguments& arguments) {
  app.add_option(
         "A", arguments.operands.a.path,
         "Left operand, M x K: a file (.npy, raw, or of gemm quantize), - for standard input, or "
         "@HANDLE or @NAME of one on the server. A .npy file of three dimensions has a matrix for "
         "each of many products")
      ->required()
      ->type_name("FILE");
  app.add_option("B", arguments.operands.b.path, "Right operand, K x N: likewise")
      ->required()
      ->type_name("FILE");
  AddOutputFile(app, "-o,--output", arguments.output,
                "Write D as .npy, whole or not at all; - is standard output")
      ->group("Files");
  app.add_flag("--keep", arguments.keep, "Leave D on the server and print its handle")
      ->group("Files");
  AddLease(app, arguments.lease, arguments.has_lease);
  app.add_option("--name", arguments.name, "With --keep: name D, so that @TEXT stands for it")
      ->type_name("TEXT")
      ->group("Files");
  app.add_flag("--replace", arguments.replace, "Take the name from the matrix that has it")
      ->group("Files");
  AddFormatOption(app, "--shape", "ROWSxCOLUMNS", &OperandFormats::AddShape,
                  arguments.operands.formats,
                  "The operand's file is raw bytes of this shape. OPERAND is a, b, c or bias; "
                  "without it: all");
  AddFormatOption(app, "--type", "TYPE", &OperandFormats::AddType, arguments.operands.formats,
                  "Type of a raw file, or of a .npy file that leaves it open (of at most 8 bits: "
                  "as ml_dtypes saves it, or as bytes of uint8, packed); or a quantized format: "
                  "int8-g128, fp8-e4m3-1x128, mxfp8-e4m3, mxfp4, nvfp4, int4-g64-f16-zp and so on");
  AddFormatOption(app, "--order", "ORDER", &OperandFormats::AddOrder, arguments.operands.formats,
                  "Order of a raw file: row-major (unless given) or column-major");
}

void AddQuantizing(CLI::App& app, OperandsArguments& operands) {
  AddQuantFormat(app, "--quantize-a", operands.a.quantize,
                 "Quantize A here, along K, before it goes: int8-row, fp8-e4m3-row, mxfp8-e4m3 and "
                 "so on (docs/quantization.md)")
      ->group("Product");
  AddQuantFormat(app, "--quantize-b", operands.b.quantize, "B likewise")->group("Product");
  AddQuantizeChoices(app, operands.choices, "Product");
  app.add_flag(
         "--report-error", operands.report_error,
         "Also report ||D - D_full|| / ||D_full|| and the largest element's error. D_full is the "
         "product of A and B in f32 before --quantize-a and --quantize-b. The server computes it, "
         "as a second request, because it has the kernels and does the same with alpha, C, bias "
         "and activation; its rounding to f32 is far below any format's. What a file holds "
         "quantized counts as it is; D's own rounding is in the error")
      ->group("Product");
}

void AddEpilogueOptions(CLI::App& app, MatmulArguments& arguments) {
  client::MatmulOptions& options = arguments.options;
  AddQuantizing(app, arguments.operands);
  app.add_flag("--transpose-a", options.transpose_a, "Multiply by A's transpose")->group("Product");
  app.add_flag("--transpose-b", options.transpose_b, "Multiply by B's transpose")->group("Product");
  app.add_option("--alpha", options.alpha, "Factor of A B")
      ->check(IsFinite())
      ->capture_default_str()
      ->group("Product");
  CLI::Option* beta = app.add_option("--beta", options.beta, "Factor of C")
                          ->check(IsFinite())
                          ->capture_default_str()
                          ->group("Product");
  CLI::Option* c =
      app.add_option("--c", arguments.operands.c.path, "M x N matrix of D's type, added beta times")
          ->type_name("FILE")
          ->group("Product");
  beta->needs(c);
  c->needs(beta);
  app.add_option("--bias", arguments.operands.bias.path,
                 "N elements of D's type, added to every row")
      ->type_name("FILE")
      ->group("Product");
  AddScaleFiles(app, "a-", "row of op(A)", arguments.operands.a.scales, "Product");
  AddScaleFiles(app, "b-", "column of op(B)", arguments.operands.b.scales, "Product");
  AddFormatOption(app, "--scale-layout", "LAYOUT", &OperandFormats::AddScaleLayout,
                  arguments.operands.formats,
                  "Of scales of blocks: plain (unless given) or blocked-128x4, tcgen05's tiles");
  AddChoice(app, "--activation", ActivationChoices(), options.activation, "Applied last")
      ->default_str("none")
      ->group("Product");
  AddChoice(
      app, "--output-type", TypeChoices(), options.output_type,
      "Type of D; unless given A's (B's where A alone is quantized), bf16 for floats of at most 8 "
      "bits, int32 for int8 (f32 with scales)")
      ->group("Product");
  AddChoice(app, "--output-order", OrderChoices(), options.output_order, "Order of D")
      ->default_str("row-major")
      ->group("Product");
}

void AddExecutionOptions(CLI::App& app, MatmulArguments& arguments) {
  client::MatmulOptions& options = arguments.options;
  AddChoice(app, "--accumulate-type", TypeChoices(), options.accumulate_type,
            "Type of the sums; the server's rule unless given")
      ->group("Execution");
  AddChoice(app, "--determinism", DeterminismChoices(), options.determinism,
            "What a row's bits may depend on")
      ->default_str("batch-invariant")
      ->group("Execution");
  app.add_option(
         "--kernel", options.kernel,
         "Use this kernel (gemm kernels lists them; sm90/f32_f16x3, for f32 of like sizes, errs\n"
         "by up to 2^-38 K of the largest of a row of A times the largest of a column of B)")
      ->type_name("NAME")
      ->group("Execution");
  AddChoice(app, "--priority", PriorityChoices(), options.priority, "Who goes first")
      ->default_str("normal")
      ->group("Execution");
  AddDuration(app, "--deadline", arguments.deadline, "For this product, instead of --timeout")
      ->group("Execution");
  AddChoice(app, "--transport",
            Choices<client::Transport>{{"auto", client::Transport::kAuto},
                                       {"unary", client::Transport::kUnary},
                                       {"stream", client::Transport::kStream}},
            arguments.route.transport, "One call, or chunks over a stream; auto goes by size")
      ->default_str("auto")
      ->group("Execution");
  app.add_option("--channels", arguments.route.channels,
                 "Connections that a stream is spread over; 0 goes by size")
      ->check(CLI::Range(0, 64))
      ->capture_default_str()
      ->group("Execution");
  app.add_flag(
         "--split", arguments.split,
         "Have each server compute some of D's rows, and D is put together here. Its bits are "
         "those of one server's (docs/several-servers.md)")
      ->group("Execution");
  app.add_option("--verify", options.verification_vectors,
                 "Have the server check the product with N random vectors; 3 is usual. Of products "
                 "without activation")
      ->check(CLI::Range(0, 64))
      ->type_name("N")
      ->group("Execution");
  app.add_option("--traceparent", arguments.trace.traceparent,
                 "The trace that the product belongs to, as W3C writes it; unless given, that of "
                 "TRACEPARENT in the environment")
      ->type_name("00-TRACE-PARENT-FLAGS")
      ->group("Execution");
  app.add_option("--tracestate", arguments.trace.tracestate,
                 "What goes with it; unless either is given, TRACESTATE")
      ->type_name("KEY=VALUE,...")
      ->group("Execution");
}

// Options go before the environment, where a variable that is no header's value is told of too.
Outcome ReadTrace(const client::TraceHeaders& given, client::TraceHeaders* trace) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  *trace = given;
  const bool is_given = !given.traceparent.empty() || !given.tracestate.empty();
  if (!is_given) trace->traceparent = variable("TRACEPARENT");
  // Alone it says nothing, and whoever set it did not set it for this program.
  if (!is_given && !trace->traceparent.empty()) trace->tracestate = variable("TRACESTATE");
  const absl::Status status = Check(*trace);
  if (status.ok()) return std::nullopt;
  return UsageFailure(absl::StrCat(
      is_given ? "--" : "of TRACEPARENT and TRACESTATE in the environment: ", status.message()));
}

void ReportKept(const GlobalOptions& global, const client::Product& product) {
  const v1::Receipt& receipt = product.receipt.server;
  if (global.json) {
    std::cout
        << nlohmann::ordered_json{{"handle", product.handle}, {"receipt", ToJson(receipt)}}.dump()
        << "\n";
  } else {
    std::cout << "D  " << client::ToString(product.format) << " -> @" << product.handle << "\n"
              << "kernel  " << receipt.kernel() << ", " << receipt.device() << "\n";
  }
}

// Multiplies the operands as they were before they were quantized, and says in `error` how far D is
// from that product.
Outcome CompareWithFull(const GlobalOptions& global, client::Client& connection,
                        client::MatmulInputs full, client::MatmulOptions options,
                        const client::CallOptions& call, const client::MatrixView& d,
                        std::optional<client::ProductError>& error) {
  options.output_type = DataType::kF32;
  options.accumulate_type = std::nullopt;  // of other types than D's: the server's rule
  options.kernel.clear();
  options.verification_vectors = 0;
  const absl::StatusOr<client::Product> product = connection.Matmul(std::move(full), options, call);
  if (!product.ok()) {
    return ServerFailure(
        global.server,
        absl::Status(product.status().code(), absl::StrCat("--report-error: of the product before "
                                                           "quantizing: ",
                                                           product.status().message())));
  }
  const absl::StatusOr<client::ProductError> compared =
      client::CompareProducts(d, product->d->view());
  if (!compared.ok())
    return UsageFailure(absl::StrCat("--report-error: ", compared.status().message()));
  error = *compared;
  return std::nullopt;
}

// Writes and reports it: a Product, or a SplitProduct.
template <typename AnyProduct>
Outcome Conclude(const GlobalOptions& global, const MatmulArguments& arguments,
                 const AnyProduct& product, const client::Matrix& d, bool is_batch,
                 const std::optional<client::ProductError>& error) {
  if (Outcome failure =
          is_batch ? WriteStack(arguments.output, d) : WriteOutput(arguments.output, d.view())) {
    return failure;
  }
  if (global.json) {
    nlohmann::ordered_json report = ReportJson(product, arguments.output);
    if (error) report["quantization_error"] = ToJson(*error);
    std::cout << report.dump() << "\n";
  } else {
    PrintBeside(absl::StrCat(Report(product, arguments.output), error ? Describe(*error) : ""),
                {arguments.output});
  }
  return std::nullopt;
}

// Names what was kept.
Outcome NameKept(const GlobalOptions& global, const MatmulArguments& arguments,
                 const client::Product& product) {
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(global, operands)) return failure;
  const absl::Status named = operands
                                 ->SetName({product.handle, {}}, arguments.name, arguments.replace,
                                           CallWithin(global.timeout))
                                 .status();
  if (named.ok()) return std::nullopt;
  return ServerFailure(
      global.server,
      absl::Status(named.code(), absl::StrCat("D is @", product.handle, ": ", named.message())));
}

Outcome CheckKeep(const MatmulArguments& arguments) {
  if (!arguments.keep) {
    if (arguments.has_lease) return UsageFailure("--lease goes with --keep");
    if (!arguments.name.empty()) return UsageFailure("--name goes with --keep");
    return std::nullopt;
  }
  if (!arguments.output.empty()) {
    return UsageFailure("--keep leaves D on the server; -o would have it sent (see gemm get)");
  }
  if (arguments.operands.report_error) {
    return UsageFailure("--report-error compares D, which --keep leaves on the server");
  }
  if (arguments.name.empty()) return std::nullopt;
  const absl::Status checked = CheckOperandName("--name", arguments.name);
  if (checked.ok()) return std::nullopt;
  return UsageFailure(checked.message());
}

// Before the product, not after it.
Outcome CheckBatch(const MatmulArguments& arguments) {
  if (arguments.keep) {
    return UsageFailure("--keep keeps one matrix, and an operand's file has three dimensions");
  }
  if (arguments.options.output_order == Order::kColumnMajor && !arguments.output.empty()) {
    return UsageFailure("--output-order column-major: a D of three dimensions is row-major");
  }
  return std::nullopt;
}

// A product as it is sent.
struct Asked {
  client::MatmulInputs inputs;
  client::MatmulOptions options;
  client::CallOptions call;
  std::optional<client::MatmulInputs> full;  // as Inputs has it
};

Outcome RunSplit(const GlobalOptions& global, const MatmulArguments& arguments,
                 client::Client& connection, Asked asked) {
  if (const absl::Status s = client::CheckSplit(asked.inputs, asked.options); !s.ok()) {
    return UsageFailure(absl::StrCat("--split: ", s.message()));
  }
  const absl::StatusOr<client::SplitProduct> product =
      client::SplitMatmul(connection, asked.inputs, asked.options, asked.call);
  if (!product.ok()) return ServerFailure(global.server, product.status());
  std::optional<client::ProductError> error;
  if (asked.full) {
    if (Outcome failure = CompareWithFull(global, connection, *std::move(asked.full), asked.options,
                                          asked.call, product->d.view(), error)) {
      return failure;
    }
  }
  return Conclude(global, arguments, *product, product->d, false, error);
}

Outcome RunWhole(const GlobalOptions& global, const MatmulArguments& arguments,
                 client::Client& connection, Asked asked) {
  const absl::StatusOr<client::Product> product =
      connection.Matmul(std::move(asked.inputs), asked.options, asked.call);
  if (!product.ok()) return ServerFailure(global.server, product.status());
  std::optional<client::ProductError> error;
  if (asked.full) {
    if (Outcome failure = CompareWithFull(global, connection, *std::move(asked.full), asked.options,
                                          asked.call, product->d->view(), error)) {
      return failure;
    }
  }
  if (!arguments.name.empty()) {
    if (Outcome failure = NameKept(global, arguments, *product)) return failure;
  }
  if (!product->d.has_value()) {
    ReportKept(global, *product);
    return std::nullopt;
  }
  return Conclude(global, arguments, *product, *product->d, asked.options.batch.has_value(), error);
}

Outcome RunMatmul(const GlobalOptions& global, const MatmulArguments& arguments) {
  if (Outcome failure = CheckOutput(arguments.output, global.json)) return failure;
  if (Outcome failure = CheckKeep(arguments)) return failure;
  client::TraceHeaders trace;
  if (Outcome failure = ReadTrace(arguments.trace, &trace)) return failure;
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  OperandsArguments operands = arguments.operands;
  operands.transpose_a = arguments.options.transpose_a;
  operands.transpose_b = arguments.options.transpose_b;
  std::optional<Inputs> inputs;
  if (Outcome failure = ReadInputs(operands, inputs)) return failure;
  client::MatmulOptions options = arguments.options;
  options.batch = inputs->batch;
  if (options.batch) {
    if (Outcome failure = CheckBatch(arguments)) return failure;
  }
  if (arguments.keep) {
    options.destination =
        client::KeepResult{arguments.has_lease ? client::Lease(arguments.lease) : client::Lease()};
  }
  client::CallOptions call =
      CallWithin(arguments.deadline > absl::ZeroDuration() ? arguments.deadline : global.timeout);
  call.route = arguments.route;
  call.trace = trace;
  Asked asked{std::move(inputs->given), options, call, std::move(inputs->full)};
  return arguments.split ? RunSplit(global, arguments, *connection, std::move(asked))
                         : RunWhole(global, arguments, *connection, std::move(asked));
}

}  // namespace

void AddMatmulCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand(
      "matmul", "Multiply: D = activation(alpha op(A) op(B) + beta C + bias)");
  const auto arguments = std::make_shared<MatmulArguments>();
  AddFileOptions(app, *arguments);
  AddEpilogueOptions(app, *arguments);
  AddExecutionOptions(app, *arguments);
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunMatmul(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
