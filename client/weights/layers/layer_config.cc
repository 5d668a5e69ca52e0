#include "client/weights/layers/layer_config.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "client/matrix.h"
#include "nlohmann/json.hpp"

namespace gemmd::client {
namespace {

using Json = nlohmann::json;

// More sizes than any model mixes.
constexpr std::size_t kMostSizes = 64;

// A text as JSON has it, cut where it is long.
std::string Shown(const Json& value) {
  return Quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

// Parts of the tree that are too deep are not kept, so that depth costs nothing.
absl::StatusOr<Json> ParseConfig(absl::string_view text) {
  std::set<std::string> seen;
  std::string twice;
  std::vector<std::string> path(kMostConfigDepth + 2);
  const auto keep = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMostConfigDepth) return false;
    if (event != Json::parse_event_t::key) return true;
    const auto& key = parsed.get_ref<const std::string&>();
    path[static_cast<std::size_t>(depth)] = key;
    // Arrays have no keys, so that objects within one share their path: these are not compared.
    if (depth <= 2 &&
        !seen.insert(absl::StrCat(depth, path[1], "\n", depth == 2 ? key : "")).second) {
      twice = key;
    }
    return true;
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

// The object that speaks of layers; fields that are wrong are named with its key.
class Section {
 public:
  Section(const Json& json, absl::string_view name) : json_(json), name_(name) {}

  absl::Status Wrong(absl::string_view field, const std::string& is, absl::string_view must) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, name_.empty() ? "" : ": ", field, " is ", is, "; it must be ", must));
  }

  // The text that these keys have, in small letters: programs write one of them, or all alike.
  absl::StatusOr<std::optional<std::string>> Text(const std::vector<const char*>& keys) const {
    std::optional<std::string> text;
    for (const char* key : keys) {
      const auto found = json_.find(key);
      if (found == json_.end() || found->is_null()) continue;
      if (!found->is_string()) return Wrong(key, Shown(*found), "a text");
      std::string said = absl::AsciiStrToLower(found->get<std::string>());
      if (text && said != *text) {
        return Wrong(key, Quoted(said), absl::StrCat(Quoted(*text), ", as ", keys[0], " is"));
      }
      text = std::move(said);
    }
    return text;
  }

  // The whole number of that range under the first of these keys that is there; one must be.
  absl::StatusOr<std::int64_t> Number(const std::vector<const char*>& keys, std::int64_t least,
                                      std::int64_t most) const {
    const std::string must = absl::StrCat("a whole number from ", least, " to ", most);
    for (const char* key : keys) {
      const auto found = json_.find(key);
      if (found == json_.end()) continue;
      const bool fits = found->is_number_integer() &&
                        (!found->is_number_unsigned() ||
                         found->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)) &&
                        found->get<std::int64_t>() >= least && found->get<std::int64_t>() <= most;
      if (!fits) return Wrong(key, Shown(*found), must);
      return found->get<std::int64_t>();
    }
    return Wrong(keys[0], "missing", must);
  }

 private:
  const Json& json_;
  absl::string_view name_;
};

// GPTQModel's format in which the bits of a code are in planes of 1, 2, 4 or 8 bits.
constexpr absl::string_view kPlanar = "gptq_p";

absl::StatusOr<PackingConfig> ParsePacking(const Section& section, bool is_awq) {
  const auto format = is_awq ? section.Text({"version", "checkpoint_format", "format"})
                             : section.Text({"checkpoint_format", "format"});
  if (!format.ok()) return format.status();
  PackingConfig config;
  const std::string name = format->value_or(is_awq ? "gemm" : "gptq");
  if (is_awq) {
    config.packing = name == "gemv"        ? Packing::kAwqGemv
                     : name == "gemv_fast" ? Packing::kAwqGemvFast
                                           : Packing::kAwq;
    if (name != "gemm" && config.packing == Packing::kAwq) {
      config.why =
          absl::StrCat("it is packed as ", Quoted(name), ", and gemm, gemv and gemv_fast are read");
    }
  } else {
    config.packing = name == "gptq" ? Packing::kGptq : Packing::kGptqV2;
    if (name != "gptq" && name != "gptq_v2" && name != kPlanar) {
      config.why =
          absl::StrCat("it is packed as ", Quoted(name), ", and gptq, gptq_v2 and gptq_p are read");
    }
  }
  const auto bits = section.Number({"bits", "w_bit"}, 2, 8);
  if (!bits.ok()) return bits.status();
  config.bits = static_cast<std::uint64_t>(*bits);
  // With 3, 5, 6 and 7 bits a code is in several words. With others gptq_p is gptq_v2.
  if (!is_awq && name == kPlanar && (*bits == 3 || (*bits >= 5 && *bits <= 7))) {
    config.packing = Packing::kGptqPlanar;
  }
  const auto group = section.Number({"group_size", "q_group_size"}, -1, kMaxDimension);
  if (!group.ok()) return group.status();
  if (*group == 0) return section.Wrong("group_size", "0", "-1, for all of K, or more than 0");
  config.group_size = *group < 0 ? 0 : static_cast<std::uint64_t>(*group);
  return config;
}

std::optional<std::uint64_t> SizeOf(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto size = value.get<std::uint64_t>();
  if (size == 0 || size > kMaxDimension) return std::nullopt;
  return size;
}

// The blocks that a value of such a key says: [lines, K], or K alone; none of other keys.
std::optional<BlockShape> BlockOf(absl::string_view key, const Json& value) {
  if (key == "group_size") {
    const std::optional<std::uint64_t> size = SizeOf(value);
    if (size) return BlockShape{1, *size};
  }
  if (key != "weight_block_size" && key != "block_structure") return std::nullopt;
  if (!value.is_array() || value.size() != 2) return std::nullopt;
  const std::optional<std::uint64_t> lines = SizeOf(value[0]);
  const std::optional<std::uint64_t> k = SizeOf(value[1]);
  if (!lines || !k) return std::nullopt;
  return BlockShape{*lines, *k};
}

// Takes the sizes of the whole tree, kMostConfigDepth deep: programs have such keys for all layers,
// for groups of layers and for single ones. Those of activations and caches mean no weights.
void Collect(const Json& json, LayerConfig& config) {
  for (const auto& [key, value] : json.items()) {
    if (config.blocks.size() + config.bits.size() == kMostSizes) return;
    if (key == "input_activations" || key == "output_activations" || key == "kv_cache_scheme") {
      continue;
    }
    if (const std::optional<BlockShape> block = BlockOf(key, value)) {
      config.blocks.push_back(*block);
    } else if (key == "num_bits") {
      const std::optional<std::uint64_t> bits = SizeOf(value);
      if (bits && *bits <= 8) config.bits.push_back(static_cast<int>(*bits));
    } else if (value.is_structured()) {
      Collect(value, config);
    }
  }
}

}  // namespace

absl::StatusOr<std::optional<LayerConfig>> ParseLayerConfig(absl::string_view text,
                                                            const ConfigFile& file) {
  const absl::StatusOr<Json> json = ParseConfig(text);
  if (!json.ok()) return json.status();
  const Json* said = &*json;
  if (!file.section.empty()) {
    const auto found = json->find(std::string(file.section));
    if (found == json->end() || !found->is_object()) return std::optional<LayerConfig>();
    said = &*found;
  }
  const Section section(*said, file.section);
  const auto method = section.Text({"quant_method", "method"});
  if (!method.ok()) return method.status();
  LayerConfig config;
  const std::string name = method->value_or(std::string(file.method));
  if (name == "gptq" || name == "awq") {
    absl::StatusOr<PackingConfig> packing = ParsePacking(section, name == "awq");
    if (!packing.ok()) return packing.status();
    config.packing = *std::move(packing);
  }
  Collect(*said, config);
  config.is_rotated = name == "sdnq" && said->value("use_hadamard", Json(false)) != false;
  return std::optional<LayerConfig>(std::move(config));
}

}  // namespace gemmd::client
