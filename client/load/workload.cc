#include "client/load/workload.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/numbers/fp8.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/quant_format.h"
#include "client/names.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace gemmd::load {
namespace {

absl::Status Refuse(absl::string_view field, absl::string_view value, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is \"", value, "\"; ", why));
}

absl::StatusOr<Residents> ResidentsOf(const std::string& operands) {
  if (operands == "inline" || operands == "streamed" || operands == "shared-memory") {
    return Residents::kNone;
  }
  if (operands == "resident") return Residents::kBoth;
  if (operands == "resident-b") return Residents::kB;
  return Refuse("operands", operands,
                "it must be inline, streamed, resident, resident-b or shared-memory");
}

// Returns the route options of the entry.
absl::StatusOr<client::RouteOptions> RouteOf(const RequestSpec& spec) {
  const std::string& operands = spec.operands();
  const bool is_shared = operands == "shared-memory";
  if (is_shared && spec.call() != "unary") {
    return Refuse("call", spec.call(), "operands in shared memory need no stream");
  }
  client::RouteOptions route;
  if (spec.call() == "stream" || (operands == "streamed" && !spec.has_call())) {
    route.transport = client::Transport::kStream;
  } else if (operands == "streamed") {
    return Refuse("call", spec.call(), "streamed operands need a stream");
  } else if (spec.call() == "unary") {
    route.transport = client::Transport::kUnary;
  } else if (spec.call() != "auto") {
    return Refuse("call", spec.call(), "it must be unary, stream or auto");
  }
  constexpr std::uint32_t kMaxChannels = 64;
  if (spec.channels() > kMaxChannels) {
    return Refuse("channels", absl::StrCat(spec.channels()),
                  absl::StrCat("at most ", kMaxChannels, " are accepted"));
  }
  constexpr std::uint64_t kMostChunkBytes = 64 << 20;
  if (spec.chunk_bytes() > kMostChunkBytes) {
    return Refuse("chunk_bytes", absl::StrCat(spec.chunk_bytes()),
                  absl::StrCat("at most ", kMostChunkBytes, " are accepted"));
  }
  // The default of one is that of a stream; a rule that may choose chooses channels too.
  if (route.transport != client::Transport::kAuto || spec.has_channels()) {
    route.channels = static_cast<int>(spec.channels());
  }
  route.chunk_bytes = spec.chunk_bytes();
  return route;
}

// One operand's type, and the format's name if it has one.
struct NamedType {
  client::OperandType type;
  std::string format;
};

absl::StatusOr<NamedType> TypeOf(const std::string& text) {
  absl::StatusOr<client::OperandType> type = client::ParseOperandType(text);
  if (!type.ok()) return type.status();
  if (!type->format && !CanGenerate(type->element)) {
    return Refuse("type", text,
                  "data is made of f64, f32, tf32, f16, bf16, int8, fp8-e4m3, fp8-e5m2 and "
                  "formats such as mxfp4 and int4-g128-f16");
  }
  return NamedType{*type, type->format ? client::OptionName(text) : ""};
}

struct OperandTypes {
  NamedType a;
  NamedType b;
};

// "bf16" is both operands' type, "a=bf16,b=int4-g128-f16" is each one's.
absl::StatusOr<OperandTypes> TypesOf(const std::string& text) {
  if (!absl::StrContains(text, '=')) {
    absl::StatusOr<NamedType> type = TypeOf(text);
    if (!type.ok()) return type.status();
    return OperandTypes{*type, *type};
  }
  std::optional<NamedType> a;
  std::optional<NamedType> b;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> named = absl::StrSplit(part, absl::MaxSplits('=', 1));
    std::optional<NamedType>* const operand = named.first == "a"   ? &a
                                              : named.first == "b" ? &b
                                                                   : nullptr;
    if (operand == nullptr || operand->has_value()) {
      a.reset();
      break;
    }
    absl::StatusOr<NamedType> type = TypeOf(named.second);
    if (!type.ok()) return type.status();
    *operand = *std::move(type);
  }
  if (!a.has_value() || !b.has_value()) {
    return Refuse("type", text, "it must be a type, or a=TYPE,b=TYPE");
  }
  return OperandTypes{*std::move(a), *std::move(b)};
}

absl::StatusOr<client::MatmulOptions> Options(const RequestSpec& spec) {
  client::MatmulOptions options;
  options.kernel = spec.kernel();
  if (!spec.output_type().empty()) {
    const absl::StatusOr<DataType> type = client::ParseDataType(spec.output_type());
    if (!type.ok()) return type.status();
    options.output_type = *type;
  }
  const std::string& priority = spec.priority();
  if (priority == "low") {
    options.priority = v1::PRIORITY_LOW;
  } else if (priority == "high") {
    options.priority = v1::PRIORITY_HIGH;
  } else if (priority != "normal") {
    return Refuse("priority", priority, "it must be low, normal or high");
  }
  const std::string determinism = client::OptionName(spec.determinism());
  if (determinism == "fast") {
    options.determinism = Determinism::kFast;
  } else if (determinism != "batch-invariant") {
    return Refuse("determinism", determinism, "it must be batch-invariant or fast");
  }
  return options;
}

// `type`: A's, which alone gets NaNs.
absl::StatusOr<DataSpec> Data(const RequestSpec& spec, const client::OperandType& type) {
  DataSpec data;
  data.nan = spec.nan();
  if (data.nan && type.format) {
    return Refuse("nan", "true", absl::StrCat(spec.type(), " is made of finite values"));
  }
  if (data.nan && type.element == DataType::kInt8) {
    return Refuse("nan", "true", "int8 has no NaN");
  }
  if (spec.data() == "normal") {
    data.distribution = Distribution::kNormal;
  } else if (spec.data() == "uniform") {
    data.distribution = Distribution::kUniform;
  } else if (spec.data() == "scales") {
    data.distribution = Distribution::kScales;
  } else {
    return Refuse("data", spec.data(), "it must be normal, uniform or scales");
  }
  return data;
}

absl::StatusOr<WorkloadEntry> MakeEntry(const RequestSpec& spec) {
  const absl::StatusOr<Residents> residents = ResidentsOf(spec.operands());
  if (!residents.ok()) return residents.status();
  const absl::StatusOr<client::RouteOptions> route = RouteOf(spec);
  if (!route.ok()) return route.status();
  const absl::StatusOr<OperandTypes> types = TypesOf(spec.type());
  if (!types.ok()) return types.status();
  absl::StatusOr<client::MatmulOptions> options = Options(spec);
  if (!options.ok()) return options.status();
  const absl::StatusOr<DataSpec> data = Data(spec, types->a.type);
  if (!data.ok()) return data.status();

  WorkloadEntry entry;
  entry.name = spec.name();
  entry.a_quantized = types->a.format;
  entry.b_quantized = types->b.format;
  entry.a.type = types->a.type.element;
  entry.b.type = types->b.type.element;
  if (spec.transpose_b() && entry.b_quantized.empty()) entry.b.order = Order::kColumnMajor;
  if (entry.name.empty()) {
    entry.name = absl::StrCat(spec.m(), "x", spec.n(), "x", spec.k(), " ",
                              client::OptionName(entry.type_name()),
                              entry.b.order == Order::kColumnMajor ? " transposed" : "");
  }
  entry.weight = spec.weight();
  if (!(entry.weight > 0))
    return Refuse("weight", absl::StrCat(entry.weight), "it must be above 0");
  // A product with K = 0 can be asked for, and is no load.
  for (const auto& [field, size] : {std::pair{"m", spec.m()}, {"n", spec.n()}, {"k", spec.k()}}) {
    if (size == 0) return Refuse(field, "0", "it must be at least 1");
  }
  entry.a.rows = spec.m();
  entry.a.columns = entry.b.rows = spec.k();
  entry.b.columns = spec.n();
  for (const client::MatrixFormat& format : {entry.a, entry.b}) {
    const absl::StatusOr<std::uint64_t> size = client::SizeBytes(format);
    if (!size.ok()) return size.status();
  }
  entry.options = *std::move(options);
  entry.route = *route;
  entry.residents = *residents;
  entry.is_shared = spec.operands() == "shared-memory";
  entry.tenant = spec.tenant();
  entry.data = *data;
  if (!spec.deadline().empty() && (!absl::ParseDuration(spec.deadline(), &entry.deadline) ||
                                   entry.deadline <= absl::ZeroDuration())) {
    return Refuse("deadline", spec.deadline(), "it must be a positive duration such as 250ms");
  }
  return entry;
}

// With its scales, where it is of a quantized format.
std::uint64_t OperandBytes(const client::MatrixFormat& matrix, const std::string& quantized,
                           std::uint64_t lines, std::uint64_t k) {
  std::uint64_t bytes = client::SizeBytes(matrix).value_or(0);
  const QuantFormat* const format = FindQuantFormat(quantized);
  if (format == nullptr) return bytes;
  const Scaling& scaling = format->scaling;
  const auto scales = static_cast<std::uint64_t>(
      scaling.count(static_cast<std::int64_t>(lines), static_cast<std::int64_t>(k)));
  const std::uint64_t scale_bytes = scales * static_cast<std::uint64_t>(SizeBits(scaling.type)) / 8;
  bytes += scale_bytes;
  if (scaling.has_zero_points) bytes += scales;
  if (scaling.has_offsets) bytes += scale_bytes;
  if (scaling.has_tensor_scale) bytes += sizeof(float);
  return bytes;
}

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  std::string text;
};

}  // namespace

DataType WorkloadEntry::output_type() const {
  if (options.output_type) return *options.output_type;
  const bool is_quantized = !a_quantized.empty() || !b_quantized.empty();
  if (!a_quantized.empty() && !b_quantized.empty()) {
    return IsQuantizedInteger(a.type) ? DataType::kF32 : DataType::kBf16;
  }
  // D has the type of the operand that is not quantized.
  const DataType type = a_quantized.empty() ? a.type : b.type;
  if (IsFp8(type)) return DataType::kBf16;
  if (type == DataType::kInt8) return is_quantized ? DataType::kF32 : DataType::kInt32;
  return type;
}

std::string WorkloadEntry::type_name() const {
  const auto name = [](const client::MatrixFormat& matrix, const std::string& format) {
    return format.empty() ? std::string(Name(matrix.type)) : format;
  };
  const std::string of_a = name(a, a_quantized);
  const std::string of_b = name(b, b_quantized);
  return of_a == of_b ? of_a : absl::StrCat(of_a, ",", of_b);
}

EntryCost WorkloadEntry::cost() const {
  client::MatrixFormat d;
  d.type = output_type();
  d.rows = m();
  d.columns = n();
  EntryCost cost;
  if (residents != Residents::kBoth) cost.bytes_in += OperandBytes(a, a_quantized, m(), k());
  if (residents == Residents::kNone) cost.bytes_in += OperandBytes(b, b_quantized, n(), k());
  cost.bytes_out = client::SizeBytes(d).value_or(0);
  cost.flops = 2 * static_cast<double>(m()) * static_cast<double>(n()) * static_cast<double>(k());
  return cost;
}

absl::StatusOr<Workload> MakeWorkload(const WorkloadFile& file) {
  if (file.request().empty()) {
    return absl::InvalidArgumentError("the workload has no request; it must have at least one");
  }
  Workload workload;
  for (const RequestSpec& spec : file.request()) {
    absl::StatusOr<WorkloadEntry> entry = MakeEntry(spec);
    if (!entry.ok()) {
      return absl::Status(entry.status().code(), absl::StrCat("request ", workload.size() + 1, ": ",
                                                              entry.status().message()));
    }
    workload.push_back(*std::move(entry));
  }
  return workload;
}

absl::StatusOr<WorkloadFile> ParseWorkloadFile(const std::string& text) {
  WorkloadFile file;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &file)) return absl::InvalidArgumentError(error.text);
  return file;
}

}  // namespace gemmd::load
