#include "client/weights/shard_index.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(ShardIndexTest, KeepsTheMapAndSkipsTheRest) {
  const auto index = ParseShardIndex(
      R"({"metadata": {"total_size": 7, "more": [[{"weight_map": null}], -1, 0.5, true]},)"
      R"( "weight_map": {"b": "two.safetensors", "a": "one.safetensors"}, "weight_maps": "x"})");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_THAT(index->shard_of,
              ElementsAre(Pair("a", "one.safetensors"), Pair("b", "two.safetensors")));
}

TEST(ShardIndexTest, HostileIndicesAreRefusedByName) {
  const auto map = [](const std::string& content) { return "{\"weight_map\":{" + content + "}}"; };
  std::string shards = "\"x\":\"x\"";
  for (int i = 0; i < 4096; ++i) absl::StrAppend(&shards, ",\"", i, "\":\"", i, "\"");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the index is no JSON from its byte"},
      {"{}", "the file is JSON without weight_map"},
      {"[]", "the index is an array; it must be an object"},
      {"7", "the file is JSON without weight_map"},
      {R"({"weight_map": []})", "weight_map is no object"},
      {R"({"weight_map": "x"})", "weight_map is no object"},
      {map("}"), "the index is no JSON from its byte"},
      {map(R"("a":"x","a":"y")"), "weight_map has \"a\" twice"},
      {R"({"weight_map":{}, "weight_map":{}})", "weight_map comes twice"},
      {map(R"("a":1)"), "weight_map's \"a\" is a number; it must be the name of a file"},
      {map(R"("a":null)"), "weight_map's \"a\" is null"},
      {map(R"("a":{})"), "weight_map's \"a\" is an object"},
      {map(R"("a":["x"])"), "weight_map's \"a\" is an array"},
      {map(R"("a":"/etc/passwd")"),
       "weight_map's \"a\" is in \"/etc/passwd\"; it must be the bare"},
      {map(R"("a":"../x")"), "is in \"../x\""},
      {map(R"("a":"..")"), "is in \"..\""},
      {map(R"("a":"-")"), "is in \"-\""},
      {map(R"("a":"")"), "is in \"\""},
      {map("\"a\":\"x\\u0000y\""), "it must be the bare name of a file"},
      {map(shards), "there are more than 4096 shards"},
      {"{\"m\":" + std::string(100000, '['), "the index is more than 32 deep"},
      {std::string(100000, '{'), "the index is no JSON from its byte"},
  };
  for (const auto& [text, why] : cases) {
    const auto index = ParseShardIndex(text);
    ASSERT_FALSE(index.ok()) << text.substr(0, 80);
    EXPECT_THAT(std::string(index.status().message()), HasSubstr(why));
    EXPECT_LT(index.status().message().size(), 600U);
  }
}

TEST(ShardIndexTest, DepthIsCountedFromTheOutside) {
  const auto deep = [](int depth) {
    return absl::StrCat(R"({"weight_map":{},"m":)", std::string(depth - 1, '['),
                        std::string(depth - 1, ']'), "}");
  };
  EXPECT_TRUE(ParseShardIndex(deep(32)).ok());
  EXPECT_FALSE(ParseShardIndex(deep(33)).ok());
}

}  // namespace
}  // namespace gemmd::client
