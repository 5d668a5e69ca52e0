#include "client/weights/shard_index.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "client/quantized/safetensors.h"
#include "nlohmann/json.hpp"

namespace gemmd::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMap[] = "weight_map";

// "-" would be read as standard input.
bool IsBareName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name != "-" &&
         name.find_first_of(std::string("/\0", 2)) == std::string::npos;
}

// Receives the parser's events. Keeps weight_map, skips the rest, and ends the parse with `error`.
class IndexReader final : public nlohmann::json_sax<Json> {
 public:
  ShardIndex index;
  std::string error;

  bool has_map() const { return has_map_; }

  bool null() override { return Scalar("null"); }
  bool boolean(bool) override { return Scalar("a truth value"); }
  bool number_integer(number_integer_t) override { return Scalar("a number"); }
  bool number_unsigned(number_unsigned_t) override { return Scalar("a number"); }
  bool number_float(number_float_t, const string_t&) override { return Scalar("a number"); }
  bool binary(binary_t&) override { return Scalar("binary data"); }

  bool string(string_t& text) override {
    if (!is_in_map()) return Scalar("a text");
    if (!IsBareName(text)) {
      return Refuse(absl::StrCat("weight_map's ", Quoted(name_), " is in ", Quoted(text),
                                 "; it must be the bare name of a file beside the index"));
    }
    shards_.insert(text);
    if (shards_.size() > kMostShards) {
      return Refuse(absl::StrCat("there are more than ", kMostShards, " shards"));
    }
    if (index.shard_of.size() == kMostSafetensorsTensors) {
      return Refuse(absl::StrCat("there are more than ", kMostSafetensorsTensors, " tensors"));
    }
    if (index.shard_of.emplace(name_, text).second) return true;
    return Refuse(absl::StrCat("weight_map has ", Quoted(name_), " twice"));
  }

  bool key(string_t& name) override {
    if (depth_ == 1) {
      root_key_ = name;
      if (name == kMap && std::exchange(has_map_, true)) return Refuse("weight_map comes twice");
    }
    if (is_in_map()) name_ = name;
    return true;
  }

  bool start_object(std::size_t) override {
    if (is_in_map()) return Unexpected("an object");
    return Deeper();
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return Refuse("the index is an array; it must be an object");
    if (depth_ == 1 && root_key_ == kMap) return Refuse("weight_map is no object");
    if (is_in_map()) return Unexpected("an array");
    return Deeper();
  }
  bool end_object() override { return Higher(); }
  bool end_array() override { return Higher(); }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return Refuse(absl::StrCat("the index is no JSON from its byte ", position, " on"));
  }

 private:
  bool is_in_map() const { return depth_ == 2 && root_key_ == kMap; }

  bool Refuse(std::string why) {
    error = std::move(why);
    return false;
  }
  bool Unexpected(absl::string_view what) {
    return Refuse(absl::StrCat("weight_map's ", Quoted(name_), " is ", what,
                               "; it must be the name of a file"));
  }
  bool Scalar(absl::string_view what) {
    if (is_in_map()) return Unexpected(what);
    if (depth_ == 1 && root_key_ == kMap) return Refuse("weight_map is no object");
    return true;
  }
  bool Deeper() {
    if (depth_++ < kMostIndexDepth) return true;
    return Refuse(absl::StrCat("the index is more than ", kMostIndexDepth,
                               " deep, the most that is accepted"));
  }
  bool Higher() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
  bool has_map_ = false;
  std::string root_key_;
  std::string name_;  // of the tensor
  std::set<std::string> shards_;
};

}  // namespace

absl::StatusOr<ShardIndex> ParseShardIndex(absl::string_view text) {
  if (text.size() > kMostIndexBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the index has ", text.size(), " bytes; at most ", kMostIndexBytes, " are accepted"));
  }
  IndexReader reader;
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) {
    return absl::InvalidArgumentError(reader.error);
  }
  if (!reader.has_map()) {
    return absl::InvalidArgumentError(
        "the file is JSON without weight_map; an index of safetensors shards has it");
  }
  return std::move(reader.index);
}

}  // namespace gemmd::client
