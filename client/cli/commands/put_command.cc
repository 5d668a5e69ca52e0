// gemm put: matrices from files to the server, to stay there.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/sync/bytes_in_flight.h"
#include "base/sync/mutex.h"
#include "base/sync/thread_loop.h"
#include "base/text/operand_name.h"
#include "base/text/quoted.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/operand_file.h"
#include "client/cli/files/quantize_options.h"
#include "client/cli/files/scale_files.h"
#include "client/cli/files/weights_source.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/put_progress.h"
#include "client/npy/npy.h"
#include "client/operands.h"
#include "client/quantized/stored_form.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm put W.npy
  gemm put W.npy --lease 2h
  gemm put Q.npy --type fp8-e4m3 --scales q.npy
  gemm put W.npy --as int4-g128-f16                   # quantized here, before it goes
  gemm put W.npy --as int4-g128-f16 --on-arrival      # quantized by the server
  gemm put W.gq                                       # of gemm quantize
  gemm put Z.npy --type int4-g64-f16-zp --scales s.npy --zero-points z.npy
  gemm put W.npy --name encoder.w
  gemm put model.safetensors:model.layers.0.mlp.up_proj.weight    # named so
  gemm put model.gguf --all --prefix blk.0. --name "llama/{}" --replace
  gemm put W.bin --shape 4096x4096 --type bf16
  gemm matmul A.npy @$(gemm --json put W.npy | jq -r .residents[0].handle) -o D.npy
)";

struct PutArguments {
  std::vector<std::string> files;
  std::string prefix;   // with `all`: of the tensors' names
  QuantizeAsked asked;  // without a format: they go as they are
  // "{}" stands for the tensor's name. Absent: "{}" for tensors, no name for matrices.
  std::optional<std::string> name;
  ScaleFiles scales;
  OperandFormats formats;
  absl::Duration lease;
  bool has_lease = false;
  bool all = false;          // tensors of the file
  bool on_arrival = false;   // the server quantizes
  bool replace = false;      // takes the name from another
  bool says_format = false;  // --type, --order or --scale-layout was given
};

// Finds out whether a vector of scales is one for each row, which it is where there are as many as
// rows. One that lies as a row is not, as `gemm get --scales-output` may have written it.
Outcome IsColumn(const ScaleFiles& files, const client::Matrix& data, bool& is_column) {
  const absl::StatusOr<client::Matrix> scales = client::ReadNpyScales(files.scales, true);
  if (!scales.ok() && client::ReadNpyScales(files.scales, false).ok()) {
    is_column = false;
    return std::nullopt;
  }
  if (!scales.ok()) return FileFailure(scales.status());
  const std::uint64_t count = scales->format().rows;
  is_column = count == 1 || count == data.format().rows;
  return std::nullopt;
}

Outcome MakeSource(client::InlineOperand operand, std::optional<client::OperandSource>& source) {
  absl::StatusOr<client::OperandSource> made = client::OperandSource::Create(std::move(operand));
  if (!made.ok()) return UsageFailure(made.status().message());
  source = *std::move(made);
  return std::nullopt;
}

Outcome MakeSource(const client::QuantizedArray& array,
                   std::optional<client::OperandSource>& source) {
  absl::StatusOr<client::InlineOperand> operand = ToOperand(array, SideOf(array.k_axis));
  if (!operand.ok()) return UsageFailure(operand.status().message());
  return MakeSource(*std::move(operand), source);
}

Outcome ReadSource(const PutArguments& arguments, const std::string& path,
                   std::optional<client::OperandSource>& source) {
  std::optional<client::QuantizedArray> array;
  std::optional<client::Matrix> data;
  if (!arguments.asked.format.empty()) {
    if (Outcome failure =
            QuantizeFile(arguments.asked, arguments.formats, "a", path, data, array)) {
      return failure;
    }
    return MakeSource(*array, source);
  }
  if (IsContainer(arguments.formats, "a", path)) {
    if (!arguments.scales.empty()) return UsageFailure("--scales: " + path + " has its own");
    if (arguments.says_format) {
      return UsageFailure(path +
                          " says its type and scale layout itself; drop --type and the like");
    }
    if (Outcome failure = ReadContainer(arguments.formats, "a", path, array)) return failure;
    return MakeSource(*array, source);
  }
  if (Outcome failure = arguments.formats.Read("a", path, data)) return failure;
  client::InlineOperand operand(*std::move(data));
  const std::optional<QuantFormat> format = arguments.formats.Format("a");
  const bool has_blocks = format && format->scaling.block_k != kWhole;
  bool is_column = true;
  if (!has_blocks && !arguments.scales.scales.empty()) {
    if (Outcome failure = IsColumn(arguments.scales, operand.data, is_column)) return failure;
  }
  if (Outcome failure = ReadScaleFiles(arguments.scales, "", format, arguments.formats.IsTiled("a"),
                                       is_column, operand)) {
    return failure;
  }
  return MakeSource(std::move(operand), source);
}

// Uploads the file as it is, for the server to quantize.
Outcome PutOnArrival(const GlobalOptions& global, const PutArguments& arguments,
                     const std::string& path, const client::Lease& lease, PutProgress* progress,
                     client::Operands& operands, v1::ResidentOperand& resident) {
  client::QuantizeRequest request;
  if (Outcome failure = RequestFor(arguments.asked, arguments.formats, "a", path, request)) {
    return failure;
  }
  std::optional<client::Matrix> data;
  if (Outcome failure = arguments.formats.Read("a", path, data)) return failure;
  const absl::StatusOr<v1::Operand> stored = StoredFormOf(data->format(), request);
  if (!stored.ok()) return UsageFailure(stored.status().message());
  std::optional<client::OperandSource> source;
  if (Outcome failure = MakeSource(client::InlineOperand(*std::move(data)), source)) return failure;
  std::optional<PutProgress> own;
  if (progress == nullptr) {
    progress = &own.emplace(TerminalForProgress(), path, source->size_bytes());
  }
  auto response = operands.PutAs(*source, *stored, lease, CallWithin(global.timeout),
                                 [progress](std::uint64_t bytes) { progress->Add(bytes); });
  if (!response.ok()) return ServerFailure(global.server, response.status());
  resident = std::move(*response->mutable_resident());
  return std::nullopt;
}

constexpr char kTensorsName[] = "{}";

// The name that a file or tensor is to have on the server; empty: none.
Outcome NameFor(const PutArguments& arguments, const std::string& path, std::string& name) {
  const std::optional<WeightsPath> weights = FindWeights(path);
  const std::string tensor = weights ? weights->tensor.value_or("") : "";
  name = arguments.name.value_or(tensor.empty() ? "" : kTensorsName);
  if (absl::StrContains(name, kTensorsName)) {
    if (tensor.empty()) {
      return UsageFailure(absl::StrCat("--name is ", Quoted(name), ", and ", path,
                                       " is no tensor, FILE:NAME, whose name {} could be"));
    }
    name = absl::StrReplaceAll(name, {{kTensorsName, tensor}});
  }
  if (name.empty()) return std::nullopt;
  const absl::Status checked = CheckOperandName("--name", name);
  if (checked.ok()) return std::nullopt;
  return UsageFailure(checked.message());
}

// The listeners of an upload: bytes as they go, and the moment at which its file has been read.
struct Told {
  PutProgress* progress = nullptr;  // null: it has a progress of its own
  std::function<void()> is_read;    // may be empty
};

// Uploads one file or tensor, which gets no name yet.
Outcome Upload(const GlobalOptions& global, const PutArguments& arguments, const std::string& path,
               const Told& told, client::Operands& operands, v1::ResidentOperand& resident) {
  const client::Lease lease =
      arguments.has_lease ? client::Lease(arguments.lease) : client::Lease();
  if (arguments.on_arrival) {
    return PutOnArrival(global, arguments, path, lease, told.progress, operands, resident);
  }
  std::optional<client::OperandSource> source;
  if (Outcome failure = ReadSource(arguments, path, source)) return failure;
  if (told.is_read) told.is_read();
  PutProgress* progress = told.progress;
  std::optional<PutProgress> own;
  if (progress == nullptr) {
    progress = &own.emplace(TerminalForProgress(), path, source->size_bytes());
  }
  std::atomic<std::uint64_t> sent{0};
  auto put = operands.Put(*source, lease, CallWithin(global.timeout),
                          [progress, &sent](std::uint64_t bytes) {
                            progress->Add(bytes);
                            sent += bytes;
                          });
  if (!put.ok()) return ServerFailure(global.server, put.status());
  // The server had the rest.
  progress->Add(source->size_bytes() - std::min<std::uint64_t>(sent, source->size_bytes()));
  resident = *std::move(put);
  return std::nullopt;
}

// Uploads and names one file or tensor.
Outcome PutOne(const GlobalOptions& global, const PutArguments& arguments, const std::string& path,
               const Told& told, client::Operands& operands, v1::ResidentOperand& resident) {
  std::string name;
  if (Outcome failure = NameFor(arguments, path, name)) return failure;
  if (Outcome failure = Upload(global, arguments, path, told, operands, resident)) {
    return failure;
  }
  if (name.empty()) return std::nullopt;
  auto named = operands.SetName({resident.handle(), {}}, name, arguments.replace,
                                CallWithin(global.timeout));
  if (!named.ok()) return ServerFailure(global.server, named.status());
  resident = std::move(*named->mutable_resident());
  return std::nullopt;
}

// "HANDLE  DIGEST  FILE", and the names where the caller chose them.
void PrintLine(const PutArguments& arguments, const v1::ResidentOperand& resident,
               absl::string_view from) {
  std::cout << resident.handle() << "  " << absl::BytesToHexString(resident.digest()) << "  "
            << from;
  if (arguments.name) {
    for (const std::string& name : resident.names()) std::cout << "  @" << Shown(name);
  }
  std::cout << "\n";
}

Outcome RunPut(const GlobalOptions& global, const PutArguments& arguments) {
  const bool is_same_for_all =
      !arguments.name.value_or("").empty() && !absl::StrContains(*arguments.name, kTensorsName);
  if (is_same_for_all && arguments.files.size() > 1) {
    return UsageFailure(absl::StrCat("--name is ", Quoted(*arguments.name), " for ",
                                     arguments.files.size(), " files; a name is of one matrix"));
  }
  if (!arguments.scales.empty() && arguments.files.size() > 1) {
    return UsageFailure("--scales: its matrix must be the only one");
  }
  if (!arguments.scales.empty() && !arguments.asked.format.empty()) {
    return UsageFailure("--as makes the scales; drop --scales and the like");
  }
  if (arguments.asked.choices.are_given() && arguments.asked.format.empty()) {
    return UsageFailure("--scale-rule and --stochastic go with --as");
  }
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(global, operands)) return failure;
  nlohmann::ordered_json residents = nlohmann::ordered_json::array();
  for (const std::string& path : arguments.files) {
    v1::ResidentOperand resident;
    if (Outcome failure = PutOne(global, arguments, path, Told(), *operands, resident)) {
      return failure;
    }
    if (global.json) {
      residents.push_back(ToJson(resident));
    } else {
      PrintLine(arguments, resident, path);
    }
  }
  if (global.json) std::cout << nlohmann::ordered_json{{"residents", residents}}.dump() << "\n";
  return std::nullopt;
}

// One tensor's end: it is resident, has failed, or was not begun because the server had failed.
struct TensorPut {
  v1::ResidentOperand resident;
  Outcome failure;
  bool is_begun = false;
  bool is_done = false;

  bool is_of_server() const {
    return failure && failure->exit_code != ExitCode::kFile &&
           failure->exit_code != ExitCode::kUsage;
  }
};

// The tensors of a file that are put, several at a time. A line says each that is resident, in the
// file's order, as soon as those before it are done: whoever interrupts has their handles.
class PutAll {
 public:
  PutAll(const GlobalOptions& global, const PutArguments& arguments,
         const std::vector<WeightsNames::Tensor>& tensors)
      : global_(global), arguments_(arguments), tensors_(tensors), puts_(tensors.size()) {}

  std::vector<TensorPut> Run(client::Operands& operands) {
    constexpr std::size_t kMostTensors = 4;
    // With the library's own, gemm stays below 256 MiB unless one tensor has more.
    constexpr std::uint64_t kMostBytesInFlight = 176 << 20;
    std::uint64_t total = 0;
    for (const WeightsNames::Tensor& tensor : tensors_) total += tensor.size_bytes;
    PutProgress progress(TerminalForProgress(), arguments_.files[0], total);
    // While one tensor is read and decoded, others are sent.
    BytesInFlight in_flight(kMostBytesInFlight);
    std::atomic<bool> has_server_failed{false};
    ForEachOnThreads(tensors_.size(), kMostTensors, [&](std::size_t i) {
      const WeightsNames::Tensor& tensor = tensors_[i];
      std::uint64_t held = tensor.size_bytes + tensor.read_bytes;
      in_flight.Enter(held);
      TensorPut put;
      put.is_begun = !has_server_failed;
      if (put.is_begun) {
        const std::string path = absl::StrCat(arguments_.files[0], ":", tensor.name);
        const Told told{&progress, [&] {
                          in_flight.Shrink(tensor.read_bytes);
                          held -= tensor.read_bytes;
                        }};
        put.failure = PutOne(global_, arguments_, path, told, operands, put.resident);
        if (put.is_of_server()) has_server_failed = true;
        ReleaseWeight({arguments_.files[0], tensor.name});
      }
      in_flight.Leave(held);
      Finish(i, std::move(put), progress);
    });
    const MutexLock lock(mutex_);
    return std::move(puts_);
  }

 private:
  void Finish(std::size_t index, TensorPut put, PutProgress& progress) {
    const MutexLock lock(mutex_);
    puts_[index] = std::move(put);
    puts_[index].is_done = true;
    for (; next_ < puts_.size() && puts_[next_].is_done; ++next_) {
      const TensorPut& next = puts_[next_];
      if (global_.json || !next.is_begun || next.failure) continue;
      progress.Hide();
      PrintLine(arguments_, next.resident,
                absl::StrCat(arguments_.files[0], ":", Shown(tensors_[next_].name)));
      std::cout << std::flush;
    }
  }

  const GlobalOptions& global_;
  const PutArguments& arguments_;
  const std::vector<WeightsNames::Tensor>& tensors_;
  Mutex mutex_;
  std::size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // whose line comes next
  std::vector<TensorPut> puts_ ABSL_GUARDED_BY(mutex_);
};

// Puts every tensor of a file that has a form. One that has none is left out, with its reason: most
// models have vectors beside their matrices.
Outcome RunPutAll(const GlobalOptions& global, const PutArguments& arguments) {
  if (arguments.files.size() != 1) return UsageFailure("--all takes one FILE");
  if (arguments.name && !arguments.name->empty() &&
      !absl::StrContains(*arguments.name, kTensorsName)) {
    return UsageFailure(absl::StrCat("--name is ", Quoted(*arguments.name),
                                     "; with --all it must have {}, the tensor's name"));
  }
  if (arguments.says_format || arguments.formats.IsRaw("a") || !arguments.scales.empty()) {
    return UsageFailure(
        "--all: the file says its types and shapes itself; drop --type, --shape, "
        "--scales and the like");
  }
  WeightsNames names;
  if (Outcome failure = ListWeights(arguments.files[0], arguments.prefix, names)) return failure;
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(global, operands)) return failure;
  PutAll all(global, arguments, names.with_form);
  const std::vector<TensorPut> puts = all.Run(*operands);
  nlohmann::ordered_json residents = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < puts.size(); ++i) {
    const std::string& name = names.with_form[i].name;
    if (puts[i].is_of_server()) return puts[i].failure;
    if (puts[i].failure) {
      names.refused.emplace_back(name, puts[i].failure->why);
    } else if (puts[i].is_begun) {
      residents.push_back(ToJson(puts[i].resident));
      residents.back()["tensor"] = name;
    }
  }
  nlohmann::ordered_json refused = nlohmann::ordered_json::array();
  for (const auto& [name, why] : names.refused) {
    refused.push_back({{"tensor", name}, {"why", why}});
    if (!global.json) std::cerr << "gemm: left out " << Shown(name) << ": " << why << "\n";
  }
  if (residents.empty()) {
    return FileFailure(absl::InvalidArgumentError(
        absl::StrCat(arguments.files[0], ": --all: no tensor was put; ", names.refused.size(),
                     " have no form, of those whose names begin with \"", arguments.prefix, "\"")));
  }
  if (global.json) {
    // A tensor's name may be any bytes.
    std::cout << nlohmann::ordered_json{{"residents", residents}, {"refused", refused}}.dump(
                     -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << "\n";
  }
  return std::nullopt;
}

}  // namespace

void AddPutCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand(
      "put", "Upload matrices that stay; print handle, digest and names");
  const auto arguments = std::make_shared<PutArguments>();
  arguments->asked.option = "--as";
  app.add_option("files", arguments->files,
                 ".npy or raw files, what gemm quantize wrote, or tensors of safetensors, GGUF, "
                 ".npz and ONNX files, as FILE:NAME; - is standard input")
      ->required()
      ->type_name("FILE");
  CLI::Option* const all =
      app.add_flag("--all", arguments->all,
                   "Every tensor of a safetensors, GGUF, .npz or ONNX file that has a form here");
  app.add_option("--prefix", arguments->prefix, "With --all: tensors whose names begin so")
      ->type_name("TEXT")
      ->needs(all);
  app.add_option("--name", arguments->name,
                 "Name it on the server, where @TEXT stands for it then; {} is the tensor's name, "
                 "which tensors get unless this says otherwise. Empty: none")
      ->type_name("TEXT");
  app.add_flag("--replace", arguments->replace, "Take the name from the matrix that has it");
  CLI::Option* const as =
      AddQuantFormat(app, "--as", arguments->asked.format,
                     "Quantize files of f32, f16 or bf16 here, and upload what comes of it");
  app.add_flag("--on-arrival", arguments->on_arrival,
               "The server quantizes to --as: the files go as they are")
      ->needs(as);
  AddKAxis(app, arguments->asked.k_axis)->needs(as);
  AddQuantizeChoices(app, arguments->asked.choices, "");
  AddFormatOption(app, "--shape", "ROWSxCOLUMNS", &OperandFormats::AddShape, arguments->formats,
                  "The files are raw bytes of this shape");
  AddFormatOption(
      app, "--type", "TYPE", &OperandFormats::AddType, arguments->formats,
      "Type of raw files, or of .npy files that leave it open; or a quantized format, as "
      "of gemm matmul");
  AddFormatOption(app, "--order", "ORDER", &OperandFormats::AddOrder, arguments->formats,
                  "Order of raw files: row-major (unless given) or column-major");
  AddScaleFiles(app, "", "row or column", arguments->scales, "");
  AddFormatOption(app, "--scale-layout", "LAYOUT", &OperandFormats::AddScaleLayout,
                  arguments->formats,
                  "Of scales of blocks: plain (unless given) or blocked-128x4, tcgen05's tiles");
  AddLease(app, arguments->lease, arguments->has_lease);
  app.footer(Footer(kExamples));
  app.callback([&commands, &app, arguments] {
    arguments->says_format =
        app.count("--type") + app.count("--order") + app.count("--scale-layout") > 0;
    commands.selected = [&commands, arguments] {
      return arguments->all ? RunPutAll(commands.global, *arguments)
                            : RunPut(commands.global, *arguments);
    };
  });
}

}  // namespace gemmd::cli
