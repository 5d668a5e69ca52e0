#include "client/cli/bench/bench_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/options.h"
#include "client/file.h"

namespace gemmd::cli {
namespace {

void AddLoadOptions(CLI::App& app, BenchArguments& arguments) {
  const char* group = "Load";
  CLI::Option* concurrency =
      app.add_option("-c,--concurrency", arguments.concurrencies,
                     "Closed loop: so many requests in flight; a list sweeps. 1 unless given")
          ->delimiter(',')
          ->check(CLI::Range(1, 1000000))
          ->type_name("N,...")
          ->group(group);
  CLI::Option* rate =
      app.add_option("-r,--rate", arguments.rates,
                     "Open loop: send so many requests/s, however fast answers come; a list "
                     "sweeps. Latency counts from the time a request was due")
          ->delimiter(',')
          ->check(CLI::Range(1e-3, 1e8))
          ->type_name("R,...")
          ->excludes(concurrency)
          ->group(group);
  AddChoice(app, "--arrivals",
            Choices<load::ArrivalKind>{{"poisson", load::ArrivalKind::kPoisson},
                                       {"constant", load::ArrivalKind::kConstant}},
            arguments.arrivals, "Gaps between an open loop's requests")
      ->default_str("poisson")
      ->group(group);
  app.add_option("--replay", arguments.replay,
                 "Open loop: when requests are due, in seconds, one a line")
      ->type_name("FILE")
      ->excludes(concurrency)
      ->excludes(rate)
      ->group(group);
  app.add_option("--channels", arguments.channels,
                 "Number of connections. Open-loop requests take them in turn; each request in "
                 "flight of a closed loop keeps to one")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  app.add_option("--streams", arguments.streams,
                 "Streams on each connection, for requests streamed over one; requests take them "
                 "as they take connections")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  app.add_option("--max-in-flight", arguments.max_in_flight,
                 "Most requests in flight of an open loop; further ones wait, and the wait counts "
                 "as latency")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str()
      ->group(group);
  app.add_option("--senders", arguments.senders, "Threads that send an open loop's requests")
      ->check(CLI::Range(1, 256))
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", arguments.seed, "Of operands, mix and Poisson arrivals")
      ->capture_default_str()
      ->group(group);
}

// A text field of the requests that have no file.
void AddField(CLI::App& app, const std::string& name, load::RequestSpec& spec,
              void (*set)(load::RequestSpec&, const std::string&), const std::string& description,
              const std::string& fallback) {
  CLI::Option* option =
      app.add_option_function<std::string>(
             name, [&spec, set](const std::string& text) { set(spec, text); }, description)
          ->type_name("WORD")
          ->group("Workload");
  if (!fallback.empty()) option->default_str(fallback);
}

void AddProtocols(CLI::App& app, BenchArguments& arguments) {
  constexpr load::Protocol kAll[] = {load::Protocol::kGemmd, load::Protocol::kOip};
  std::vector<std::string> words;
  for (const load::Protocol each : kAll) words.emplace_back(load::Name(each));
  app.add_option_function<std::vector<std::string>>(
         "--protocol",
         [&arguments, kAll](const std::vector<std::string>& given) {
           arguments.protocols.clear();
           for (const std::string& word : given) {
             for (const load::Protocol each : kAll) {
               if (word == load::Name(each)) arguments.protocols.push_back(each);
             }
           }
         },
         "gemmd, or oip: the Open Inference Protocol of Triton's clients, as ModelInfer or with "
         "--call=stream as ModelStreamInfer. Several take turns, as servers of --against do")
      ->delimiter(',')
      ->check(CLI::IsMember(words))
      ->type_name("WORD,...")
      ->default_str("gemmd")
      ->group("Workload");
}

void AddWorkloadOptions(CLI::App& app, BenchArguments& arguments) {
  using Spec = load::RequestSpec;
  using Text = std::string;
  app.add_option("--workload", arguments.workload,
                 "Textproto of kinds of requests with weights (client/load/workload.proto)")
      ->type_name("FILE")
      ->group("Workload");
  app.add_option("-s,--shape", arguments.shapes,
                 "A product of M x K by K x N, and how often; may come several times. "
                 "256x256x256 unless given")
      ->type_name("MxNxK[:WEIGHT]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Workload");
  Spec& spec = arguments.shared;
  AddField(
      app, "--type", spec, [](Spec& s, const Text& t) { s.set_type(t); },
      "Type of A and B: f64, f32, tf32, f16, bf16, int8, fp8-e4m3, fp8-e5m2, or a quantized "
      "format: "
      "int8-g128, mxfp8-e4m3, nvfp4, int4-g64-f16-zp and so on, quantized before the load; or one "
      "of each: a=bf16,b=int4-g128-f16",
      "f32");
  AddField(
      app, "--output-type", spec, [](Spec& s, const Text& t) { s.set_output_type(t); },
      "Type of D; by the server's rule unless given", "");
  app.add_flag_callback(
         "--transpose-b", [&spec] { spec.set_transpose_b(true); },
         "Keep B as N lines of K elements, as weights lie and quantized ones always do")
      ->group("Workload");
  AddField(
      app, "--data", spec, [](Spec& s, const Text& t) { s.set_data(t); },
      "Elements: normal, uniform or scales (normal times 2^-6 to 2^6)", "normal");
  app.add_flag_callback(
         "--nan", [&spec] { spec.set_nan(true); }, "Put NaN into A here and there")
      ->group("Workload");
  AddField(
      app, "--operands", spec, [](Spec& s, const Text& t) { s.set_operands(t); },
      "inline; streamed; resident: both uploaded before the load; resident-b: B is, A travels; or "
      "shared-memory: of this host, with the server, for up to 16 requests in flight",
      "inline");
  AddField(
      app, "--call", spec, [](Spec& s, const Text& t) { s.set_call(t); },
      "unary, stream, or auto: what the client library chooses", "unary");
  AddProtocols(app, arguments);
  app.add_option_function<std::uint32_t>(
         "--stripes", [&spec](std::uint32_t count) { spec.set_channels(count); },
         "Connections that one streamed request is spread over; 0 leaves it to the library")
      ->check(CLI::Range(0, 64))
      ->type_name("N")
      ->default_str("1")
      ->group("Workload");
  app.add_option_function<std::uint64_t>(
         "--chunk-bytes", [&spec](std::uint64_t bytes) { spec.set_chunk_bytes(bytes); },
         "Chunk size of a streamed request; the library chooses unless given")
      ->check(CLI::Range(1, 64 << 20))
      ->type_name("BYTES")
      ->group("Workload");
  AddField(
      app, "--priority", spec, [](Spec& s, const Text& t) { s.set_priority(t); },
      "low, normal or high", "normal");
  AddField(
      app, "--deadline", spec, [](Spec& s, const Text& t) { s.set_deadline(t); },
      "For each request, instead of --timeout", "");
  AddField(
      app, "--kernel", spec, [](Spec& s, const Text& t) { s.set_kernel(t); },
      "By name; the server chooses unless given", "");
  AddField(
      app, "--determinism", spec, [](Spec& s, const Text& t) { s.set_determinism(t); },
      "batch-invariant or fast", "batch-invariant");
}

void AddMeasurementOptions(CLI::App& app, BenchArguments& arguments) {
  const char* group = "Measurement";
  AddDuration(app, "--warm-up", arguments.warm_up, "Sent before anything is measured")
      ->default_str("1s")
      ->group(group);
  AddDuration(app, "--duration", arguments.duration,
              "Measure for so long, instead of until three windows agree")
      ->group(group);
  AddDuration(app, "--window", arguments.window, "Length of a window")
      ->default_str("1s")
      ->group(group);
  app.add_option("--stability", arguments.stability_percent,
                 "How far requests/s and median of three windows may be from their means, in %")
      ->check(CLI::Range(0.1, 100.0))
      ->capture_default_str()
      ->group(group);
  app.add_option("--max-windows", arguments.max_windows, "Most windows to wait for stability")
      ->check(CLI::Range(load::kAgreeing, 100000))
      ->capture_default_str()
      ->group(group);
  app.add_option("--verify-fraction", arguments.verify_fraction,
                 "Share of the products, 0 to 1, that the client checks")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  CLI::Option* knee =
      app.add_flag("--find-knee", arguments.find_knee,
                   "Search the highest rate that the server keeps up with, from --rate on")
          ->group(group);
  app.add_option(
         "--slo", arguments.slo,
         "Search the highest rate within objectives, as p99=5ms,errors=0.1%, from --rate on")
      ->type_name("OBJECTIVES")
      ->excludes(knee)
      ->group(group);
  CLI::Option* ceiling =
      app.add_flag(
             "--ceiling", arguments.ceiling,
             "Also measure what gRPC carries with nothing behind it on this machine, with TLS "
             "where --tls is given")
          ->group(group);
  CLI::Option* blas =
      app.add_flag(
             "--blas", arguments.blas,
             "Also measure this machine's own BLAS at the shape, in f32 or f64, and compare the "
             "server's compute stage with it: for a server of this machine, and one shape")
          ->group(group);
  app.add_option("--null", arguments.null_bytes,
                 "Echo BYTES both ways through a bare server of its own instead of multiplying: "
                 "the generator's own limit")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("BYTES")
      ->excludes(ceiling)
      ->excludes(blas)
      ->group(group);
  AddDuration(app, "--null-work", arguments.null_work,
              "Of --null's server, before each answer, one at a time and without sleep, as a "
              "device works")
      ->needs("--null")
      ->group(group);
}

void AddComparisonOptions(CLI::App& app, BenchArguments& arguments) {
  CLI::Option* against =
      app.add_option("--against", arguments.against,
                     "Measure these servers too, in turns with --server, and say how they differ, "
                     "with 95 % intervals. --duration is of a turn")
          ->delimiter(',')
          ->type_name("HOST:PORT,...")
          ->group("Comparison");
  for (const char* other : {"--slo", "--find-knee", "--ceiling", "--blas", "--null", "--explain"}) {
    against->excludes(app.get_option(other));
  }
  app.add_option("--rounds", arguments.rounds, "Turns of each side of a comparison")
      ->check(CLI::Range(static_cast<int>(load::kLeastBlocks), 1000))
      ->default_str("10")
      ->group("Comparison");
}

void AddOutputOptions(CLI::App& app, BenchArguments& arguments) {
  const char* group = "Output";
  app.add_flag("--explain", arguments.explain,
               "Send no load: print which kernel and plan the server chooses for each kind of "
               "request, and what it predicts")
      ->group(group);
  app.add_flag("--csv", arguments.csv, "Print CSV instead of a table")->group(group);
  AddOutputFile(app, "--save", arguments.save,
                "Write the JSON report too, for gemm bench diff; - is standard output")
      ->group(group);
  AddOutputFile(app, "--html", arguments.html, "Write the report as one page with charts")
      ->group(group);
  app.add_flag("-q,--quiet", arguments.quiet, "No progress on standard error")->group(group);
  AddOutputFile(app, "--samples", arguments.samples,
                "Write a line for each request, warm-up included: .csv or .jsonl")
      ->group(group);
  AddOutputFile(app, "--histogram", arguments.histogram,
                "Write the latencies' percentiles as HdrHistogram's text (.hgrm), a file for each "
                "load")
      ->group(group);
  AddFailOn(app, arguments.fail_on,
            "End with code 8 or 9 where this holds, as failed>1%,p99>5ms,throughput<100; with "
            "--against changes too, as p99>+10%");
}

absl::Status AddShape(absl::string_view text, const load::RequestSpec& shared,
                      load::WorkloadFile& file) {
  load::RequestSpec& spec = *file.add_request();
  spec = shared;
  const std::vector<absl::string_view> halves = absl::StrSplit(text, ':');
  const std::vector<absl::string_view> sides = absl::StrSplit(halves[0], 'x');
  std::uint64_t mnk[3] = {};
  double weight = 1;
  bool good = halves.size() <= 2 && sides.size() == 3;
  for (std::size_t i = 0; good && i < 3; ++i) {
    good = absl::SimpleAtoi(sides[i], &mnk[i]) && mnk[i] >= 1 && mnk[i] <= kMaxDimension;
  }
  if (good && halves.size() == 2) good = absl::SimpleAtod(halves[1], &weight);
  if (!good) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--shape is \"", text, "\"; it must be MxNxK or MxNxK:WEIGHT, with M, N and K of 1 to ",
        kMaxDimension));
  }
  spec.set_m(mnk[0]);
  spec.set_n(mnk[1]);
  spec.set_k(mnk[2]);
  spec.set_weight(weight);
  return absl::OkStatus();
}

Outcome ReadText(const std::string& path, std::string& text) {
  const absl::StatusOr<client::InputFile> file = client::InputFile::Open(path);
  if (!file.ok()) return FileFailure(file.status());
  absl::StatusOr<std::string> bytes = file->Read(0, file->size_bytes());
  if (!bytes.ok()) return FileFailure(bytes.status());
  text = *std::move(bytes);
  return std::nullopt;
}

bool Includes(const std::vector<load::Protocol>& protocols, load::Protocol protocol) {
  return std::find(protocols.begin(), protocols.end(), protocol) != protocols.end();
}

Failure BadFile(const std::string& path, const absl::Status& status) {
  return FileFailure(absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message())));
}

}  // namespace

void AddFailOn(CLI::App& app, std::vector<std::string>& texts, const std::string& description) {
  app.add_option("--fail-on", texts, description)
      ->type_name("CONDITIONS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Output");
}

Outcome ReadConditions(const std::vector<std::string>& texts, bool allows_changes,
                       std::vector<load::Condition>& conditions) {
  for (const std::string& text : texts) {
    const absl::StatusOr<std::vector<load::Condition>> parsed =
        load::ParseConditions(text, allows_changes);
    if (!parsed.ok()) return UsageFailure(absl::StrCat("--fail-on: ", parsed.status().message()));
    conditions.insert(conditions.end(), parsed->begin(), parsed->end());
  }
  return std::nullopt;
}

void AddBenchOptions(CLI::App& app, BenchArguments& arguments) {
  AddLoadOptions(app, arguments);
  AddWorkloadOptions(app, arguments);
  AddMeasurementOptions(app, arguments);
  AddOutputOptions(app, arguments);
  AddComparisonOptions(app, arguments);
}

Outcome ReadWorkload(const BenchArguments& arguments, load::Workload& workload) {
  load::WorkloadFile file;
  const std::string& path = arguments.workload;
  if (!path.empty()) {
    if (!arguments.shapes.empty() || arguments.shared.ByteSizeLong() > 0) {
      return UsageFailure("--workload has all that describes requests; drop the other options");
    }
    std::string text;
    if (Outcome failure = ReadText(path, text)) return failure;
    absl::StatusOr<load::WorkloadFile> parsed = load::ParseWorkloadFile(text);
    if (!parsed.ok()) return BadFile(path, parsed.status());
    file = *std::move(parsed);
  } else {
    std::vector<std::string> shapes = arguments.shapes;
    if (shapes.empty()) shapes.emplace_back("256x256x256");
    for (const std::string& shape : shapes) {
      const absl::Status added = AddShape(shape, arguments.shared, file);
      if (!added.ok()) return UsageFailure(added.message());
    }
  }
  absl::StatusOr<load::Workload> made = load::MakeWorkload(file);
  if (!made.ok()) {
    return path.empty() ? UsageFailure(made.status().message()) : BadFile(path, made.status());
  }
  workload = *std::move(made);
  if (!Includes(arguments.protocols, load::Protocol::kOip)) return std::nullopt;
  const absl::Status has_words = load::CheckOip(workload);
  if (has_words.ok()) return std::nullopt;
  return path.empty() ? UsageFailure(has_words.message()) : BadFile(path, has_words);
}

load::LoadOptions SharedLoad(const BenchArguments& arguments) {
  load::LoadOptions load;
  load.warm_up_ns = absl::ToInt64Nanoseconds(arguments.warm_up);
  if (arguments.duration > absl::ZeroDuration()) {
    load.duration_ns = absl::ToInt64Nanoseconds(arguments.duration);
  }
  load.stability.window_ns = absl::ToInt64Nanoseconds(arguments.window);
  load.stability.bound = arguments.stability_percent / 100;
  load.stability.max_windows = arguments.max_windows;
  load.max_in_flight = arguments.max_in_flight;
  load.sending_threads = arguments.senders;
  load.seed = arguments.seed;
  load.read_cpu = load::ReadCpu;
  return load;
}

Outcome MakeLoads(const BenchArguments& arguments, std::vector<load::LoadOptions>& loads) {
  load::LoadOptions load = SharedLoad(arguments);
  if (!arguments.replay.empty()) {
    std::string text;
    if (Outcome failure = ReadText(arguments.replay, text)) return failure;
    absl::StatusOr<std::vector<load::TimeNs>> times = load::ParseSchedule(text);
    if (!times.ok()) return BadFile(arguments.replay, times.status());
    load.arrivals.emplace();
    load.arrivals->kind = load::ArrivalKind::kReplay;
    load.arrivals->replay_ns = *std::move(times);
    load.warm_up_ns = 0;  // a schedule is measured whole
    loads.push_back(std::move(load));
    return std::nullopt;
  }
  for (const double rate : arguments.rates) {
    load.arrivals = load::ArrivalPlan{arguments.arrivals, rate, arguments.seed, {}};
    loads.push_back(load);
  }
  if (!arguments.rates.empty()) return std::nullopt;
  for (const int concurrency : arguments.concurrencies) {
    load.concurrency = concurrency;
    loads.push_back(load);
  }
  if (loads.empty()) {
    load.concurrency = 1;
    loads.push_back(load);
  }
  return std::nullopt;
}

}  // namespace gemmd::cli
