#include "client/weights/packed_layers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "base/numbers/float_bits.h"
#include "base/process/cpu_share.h"
#include "base/sync/thread_loop.h"
#include "base/text/quoted.h"
#include "client/bytes.h"
#include "client/matrix.h"
#include "nlohmann/json.hpp"

namespace gemmd::client {
namespace {

using Json = nlohmann::json;

constexpr char kSection[] = "quantization_config";
constexpr char kQweight[] = ".qweight";
constexpr int kCodes = 8;  // of 4 bits in an int32

absl::string_view Name(Packing packing) {
  switch (packing) {
    case Packing::kGptq:
      return "GPTQ";
    case Packing::kGptqV2:
      return "GPTQ v2";
    case Packing::kAwq:
      return "AWQ";
  }
  return "";
}

absl::Status Wrong(absl::string_view field, const std::string& is, absl::string_view must) {
  return absl::InvalidArgumentError(
      absl::StrCat(kSection, ": ", field, " is ", is, "; it must be ", must));
}

// A text as JSON has it, cut where it is long.
std::string Shown(const Json& value) {
  return Quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

// The section's text under that key, in small letters; absent where the key is.
absl::StatusOr<std::optional<std::string>> TextOf(const Json& section, const char* key) {
  const auto found = section.find(key);
  if (found == section.end() || found->is_null()) return std::optional<std::string>();
  if (!found->is_string()) return Wrong(key, Shown(*found), "a text");
  return std::optional<std::string>(absl::AsciiStrToLower(found->get<std::string>()));
}

// The section's whole number of that range under that key, which must be there.
absl::StatusOr<std::int64_t> NumberOf(const Json& section, const char* key, std::int64_t least,
                                      std::int64_t most) {
  const auto found = section.find(key);
  const std::string must = absl::StrCat("a whole number from ", least, " to ", most);
  if (found == section.end()) return Wrong(key, "missing", must);
  const bool fits = found->is_number_integer() &&
                    (!found->is_number_unsigned() ||
                     found->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)) &&
                    found->get<std::int64_t>() >= least && found->get<std::int64_t>() <= most;
  if (!fits) return Wrong(key, Shown(*found), must);
  return found->get<std::int64_t>();
}

// The text that these keys have, of which a program writes one, or all alike.
absl::StatusOr<std::optional<std::string>> TextOfAny(const Json& section,
                                                     const std::vector<const char*>& keys) {
  std::optional<std::string> text;
  for (const char* key : keys) {
    absl::StatusOr<std::optional<std::string>> found = TextOf(section, key);
    if (!found.ok()) return found.status();
    if (text && *found && **found != *text) {
      return Wrong(key, Quoted(**found), absl::StrCat(Quoted(*text), ", as ", keys[0], " is"));
    }
    if (*found) text = *std::move(found);
  }
  return text;
}

// Deeper parts of the tree than the section are not kept, so that depth costs nothing.
absl::StatusOr<Json> ParseConfig(absl::string_view text) {
  std::set<std::string> keys;
  std::string twice;
  std::string root_key;
  const auto keep = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event != Json::parse_event_t::key) return depth <= 2;
    const auto& key = parsed.get_ref<const std::string&>();
    if (depth == 1) root_key = key;
    const bool matters = depth == 1 || (depth == 2 && root_key == kSection);
    if (matters && !keys.insert(absl::StrCat(depth, key)).second) twice = key;
    return depth <= 2;
  };
  Json json = Json::parse(text.begin(), text.end(), keep, false);
  if (!twice.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", Quoted(twice), " twice"));
  }
  if (json.is_discarded() || !json.is_object()) {
    return absl::InvalidArgumentError("is no JSON object");
  }
  return json;
}

std::uint64_t GroupsOf(const PackingConfig& config, std::uint64_t k) {
  return config.group_size == 0 ? 1 : CeilOfRatio(k, config.group_size);
}

// Blocks of a form along K, which divide the groups: their scales are repeated. 0: there are none.
std::uint64_t BlockOf(const PackingConfig& config, std::uint64_t k) {
  for (const std::uint64_t block : {128, 64, 32}) {
    if (config.group_size % block == 0) return block;
  }
  return GroupsOf(config, k) == 1 ? 128 : 0;
}

// Why g_idx does not say k / group_size for each k; empty: it does.
std::string WhyNotInOrder(const PackingConfig& config, const WeightTensor& g_idx, std::uint64_t k) {
  if (g_idx.type != "I32" || g_idx.shape != std::vector<std::uint64_t>{k}) {
    return absl::StrCat("its g_idx is ", g_idx.type, " of ", ShapeText(g_idx.shape),
                        "; it must be I32 of [", k, "]");
  }
  for (std::uint64_t i = 0; i < k; ++i) {
    std::int32_t group = 0;
    std::memcpy(&group, g_idx.bytes.view().data() + i * sizeof group, sizeof group);
    const std::uint64_t expected = config.group_size == 0 ? 0 : i / config.group_size;
    if (group >= 0 && static_cast<std::uint64_t>(group) == expected) continue;
    return absl::StrCat("its g_idx has the group ", group, " for k = ", i, ", not ", expected,
                        ": its groups (act-order) are no runs of K; quantized without desc_act it "
                        "has a form");
  }
  return "";
}

using Shape = std::vector<std::uint64_t>;

std::string WhyNotOf(const char* plane, const WeightTensor& tensor, const char* type,
                     const Shape& shape) {
  if (tensor.type == type && tensor.shape == shape) return "";
  return absl::StrCat("its ", plane, " is ", tensor.type, " of ", ShapeText(tensor.shape),
                      "; it must be ", type, " of ", ShapeText(shape));
}

// The form of a layer of that shape, by its planes; else `why`.
void FindForm(const WeightTensor& qweight, const WeightTensor& qzeros, const WeightTensor& scales,
              const WeightTensor* g_idx, std::uint64_t n, std::uint64_t k, PackedLayer& layer) {
  const PackingConfig& config = layer.config;
  if (!config.why.empty()) {
    layer.why = config.why;
    return;
  }
  if (config.bits != 4) {
    layer.why = absl::StrCat("its codes have ", config.bits, " bits, and 4 are read; ",
                             config.bits < 4 ? "int4-g128-f16-zp" : "uint8-g128-zp",
                             " is closest: gemm quantize makes it of the f16 or f32 file");
    return;
  }
  const std::uint64_t groups = GroupsOf(config, k);
  const bool is_bf16 = scales.type == "BF16";
  const std::uint64_t block = BlockOf(config, k);
  layer.why =
      WhyNotOf("qweight", qweight, "I32",
               config.packing == Packing::kAwq ? Shape{k, n / kCodes} : Shape{k / kCodes, n});
  if (layer.why.empty()) layer.why = WhyNotOf("qzeros", qzeros, "I32", {groups, n / kCodes});
  if (layer.why.empty()) {
    layer.why = WhyNotOf("scales", scales, is_bf16 ? "BF16" : "F16", {groups, n});
  }
  if (layer.why.empty() && n % kCodes != 0) {
    layer.why = absl::StrCat("it has ", n, " columns, no multiple of ", kCodes);
  }
  if (layer.why.empty() && block == 0) {
    layer.why = absl::StrCat("its groups are of ", config.group_size,
                             ", and forms have blocks of 32, 64 and 128");
  }
  if (layer.why.empty() && g_idx != nullptr) layer.why = WhyNotInOrder(config, *g_idx, k);
  if (!layer.why.empty()) return;
  layer.format = absl::StrCat("int4-g", block, is_bf16 ? "-bf16-zp" : "-f16-zp");
}

std::uint32_t LoadWord(const Bytes& plane, std::uint64_t index) {
  std::uint32_t word = 0;
  std::memcpy(&word, plane.view().data() + index * sizeof word, sizeof word);
  return word;
}

// The nibble of a column among eight.
int NibbleOf(Packing packing, std::uint64_t column) {
  constexpr int kOfAwq[kCodes] = {0, 4, 1, 5, 2, 6, 3, 7};
  const auto at = static_cast<int>(column % kCodes);
  return packing == Packing::kAwq ? kOfAwq[at] : at;
}

// Eight codes of a line along K.
std::uint32_t CodesOf(const PackedLayer& layer, std::uint64_t lines, std::uint64_t line,
                      std::uint64_t first_k) {
  if (layer.config.packing != Packing::kAwq) {
    return LoadWord(layer.qweight, first_k / kCodes * lines + line);
  }
  const int shift = 4 * NibbleOf(Packing::kAwq, line);
  std::uint32_t codes = 0;
  for (int i = 0; i < kCodes; ++i) {
    const std::uint64_t row = first_k + static_cast<std::uint64_t>(i);
    const std::uint32_t word = LoadWord(layer.qweight, row * (lines / kCodes) + line / kCodes);
    codes |= (word >> shift & 15) << (4 * i);
  }
  return codes;
}

// The planes of lines that are decoded, each line's places together.
struct Planes {
  std::uint64_t k;
  std::uint64_t block;
  std::uint64_t blocks;
  char* codes;
  char* scales;
  char* zero_points;
};

absl::Status DecodeLine(const PackedLayer& layer, std::uint64_t lines, std::uint64_t line,
                        const Planes& planes) {
  const PackingConfig& config = layer.config;
  const bool is_bf16 = absl::StrContains(layer.format, "bf16");
  for (std::uint64_t block = 0; block < planes.blocks; ++block) {
    const std::uint64_t first = block * planes.block;
    const std::uint64_t group = config.group_size == 0 ? 0 : first / config.group_size;
    std::uint16_t bits = 0;
    std::memcpy(&bits, layer.scales.view().data() + (group * lines + line) * sizeof bits,
                sizeof bits);
    const float scale = is_bf16 ? FromBf16(bits) : FromF16(bits);
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("the group ", group, " of row ", line,
                                                     " has no form in ", layer.format, ": ", why));
    };
    if (!std::isfinite(scale)) {
      return refuse(absl::StrCat("its scale is ", scale, "; it must be finite"));
    }
    std::uint32_t zero = LoadWord(layer.qzeros, group * (lines / kCodes) + line / kCodes) >>
                             (4 * NibbleOf(config.packing, line)) &
                         15;
    if (config.packing == Packing::kGptq && zero++ == 15) {
      return refuse("its zero point less 1 is 15, which programs read as 16 or carry over");
    }
    // (code - zero) * scale is ((15 - code) - (15 - zero)) * -scale.
    const std::uint32_t turn = bits >> 15 != 0 ? 15 : 0;
    const std::uint64_t place = line * planes.blocks + block;
    const std::uint16_t magnitude = bits & 0x7fff;
    std::memcpy(planes.scales + place * sizeof magnitude, &magnitude, sizeof magnitude);
    planes.zero_points[place] = static_cast<char>(zero ^ turn);
    for (std::uint64_t k = first; k < std::min(planes.k, first + planes.block); k += kCodes) {
      const std::uint32_t codes = CodesOf(layer, lines, line, k) ^ (turn * 0x11111111u);
      std::memcpy(planes.codes + (line * planes.k + k) / 2, &codes, sizeof codes);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<PackingConfig>> ParsePackingConfig(absl::string_view text) {
  const absl::StatusOr<Json> json = ParseConfig(text);
  if (!json.ok()) return json.status();
  const auto section = json->find(kSection);
  if (section == json->end() || !section->is_object()) return std::optional<PackingConfig>();
  const auto method = TextOfAny(*section, {"quant_method", "method"});
  if (!method.ok()) return method.status();
  if (!*method || (**method != "gptq" && **method != "awq")) return std::optional<PackingConfig>();
  const bool is_awq = **method == "awq";
  const auto format = is_awq ? TextOfAny(*section, {"version", "checkpoint_format", "format"})
                             : TextOfAny(*section, {"checkpoint_format", "format"});
  if (!format.ok()) return format.status();
  PackingConfig config;
  config.packing = is_awq ? Packing::kAwq : Packing::kGptq;
  if (!is_awq && *format && **format == "gptq_v2") {
    config.packing = Packing::kGptqV2;
  } else if (*format && **format != (is_awq ? "gemm" : "gptq")) {
    config.why = absl::StrCat("it is packed as ", Quoted(**format), ", and ",
                              is_awq ? "gemm is" : "gptq and gptq_v2 are", " read");
  }
  const auto bits = NumberOf(*section, "bits", 2, 8);
  if (!bits.ok()) return bits.status();
  config.bits = static_cast<std::uint64_t>(*bits);
  const auto group = NumberOf(*section, "group_size", -1, kMaxDimension);
  if (!group.ok()) return group.status();
  if (*group == 0) return Wrong("group_size", "0", "-1, for all of K, or more than 0");
  config.group_size = *group < 0 ? 0 : static_cast<std::uint64_t>(*group);
  return std::optional<PackingConfig>(config);
}

std::vector<WeightTensor> CombineLayers(std::vector<WeightTensor> tensors,
                                        const PackingConfig& config) {
  std::map<std::string, WeightTensor> by_name;
  for (WeightTensor& tensor : tensors) by_name.emplace(tensor.name, tensor);
  const auto find = [&by_name](const std::string& name) -> const WeightTensor* {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : &found->second;
  };
  std::vector<std::string> prefixes;
  for (const auto& [name, tensor] : by_name) {
    if (absl::EndsWith(name, kQweight)) {
      prefixes.push_back(name.substr(0, name.size() - (sizeof kQweight - 1)));
    }
  }
  for (const std::string& prefix : prefixes) {
    const WeightTensor& qweight = *find(prefix + kQweight);
    const WeightTensor* const qzeros = find(prefix + ".qzeros");
    const WeightTensor* const scales = find(prefix + ".scales");
    const WeightTensor* const g_idx = find(prefix + ".g_idx");
    const bool has_size = qweight.shape.size() == 2 && qweight.shape[0] >= 1 &&
                          qweight.shape[1] >= 1 && qweight.shape[0] <= kMaxDimension &&
                          qweight.shape[1] <= kMaxDimension;
    if (qzeros == nullptr || scales == nullptr || !has_size || find(prefix + ".weight")) continue;
    std::uint64_t k = qweight.shape[0];
    std::uint64_t n = qweight.shape[1];
    (config.packing == Packing::kAwq ? n : k) *= 32;
    (config.packing == Packing::kAwq ? n : k) /= config.bits;
    PackedLayer layer;
    layer.config = config;
    layer.qweight = qweight.bytes;
    layer.qzeros = qzeros->bytes;
    layer.scales = scales->bytes;
    if (g_idx != nullptr) layer.g_idx = g_idx->bytes;
    FindForm(qweight, *qzeros, *scales, g_idx, n, k, layer);
    WeightTensor made;
    made.name = prefix + ".weight";
    made.type = std::string(Name(config.packing));
    made.shape = {n, k};
    made.layer = std::make_shared<const PackedLayer>(std::move(layer));
    for (const char* plane : {kQweight, ".qzeros", ".scales", ".g_idx"}) {
      by_name.erase(prefix + plane);
    }
    by_name.emplace(made.name, std::move(made));
  }
  std::vector<WeightTensor> combined;
  combined.reserve(by_name.size());
  for (auto& [name, tensor] : by_name) combined.push_back(std::move(tensor));
  return combined;
}

absl::StatusOr<QuantizedArray> DecodeLayer(const PackedLayer& layer, std::uint64_t lines,
                                           std::uint64_t k) {
  QuantizedArray array;
  array.format_name = layer.format;
  array.format = *FindQuantFormat(layer.format);
  array.rows = lines;
  array.columns = k;
  array.k_axis = KAxis::kColumns;
  const std::uint64_t block = array.format.scaling.block_k;
  const std::uint64_t blocks = (k + block - 1) / block;
  Buffer codes = Buffer::Allocate(lines * k / 2);
  Buffer scales = Buffer::Allocate(lines * blocks * 2);
  Buffer zero_points = Buffer::Allocate(lines * blocks);
  const Planes planes{k, block, blocks, codes.data(), scales.data(), zero_points.data()};
  constexpr std::uint64_t kPart = 64;
  std::vector<absl::Status> ends((lines + kPart - 1) / kPart);
  ForEachOnThreads(ends.size(), static_cast<std::size_t>(UsableCpus()), [&](std::size_t part) {
    const std::uint64_t last = std::min(lines, (part + 1) * kPart);
    for (std::uint64_t line = part * kPart; line < last && ends[part].ok(); ++line) {
      ends[part] = DecodeLine(layer, lines, line, planes);
    }
  });
  for (absl::Status& end : ends) {
    if (!end.ok()) return std::move(end);
  }
  array.codes = std::move(codes).Freeze(lines * k / 2);
  array.scales = std::move(scales).Freeze(lines * blocks * 2);
  array.zero_points = std::move(zero_points).Freeze(lines * blocks);
  return array;
}

}  // namespace gemmd::client
