#include "server/observe_http/http_target.h"

#include <string>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(HttpTargetTest, IsAPathOrAUrl) {
  const struct {
    const char* target;
    const char* path;
    const char* host;
  } cases[] = {{"/metrics", "/metrics", "own"},
               {"/a?b=/c", "/a", "own"},
               {"//a", "//a", "own"},
               {"http://h/metrics", "/metrics", "h"},
               {"HTTP://h:80/a?b", "/a", "h:80"},
               {"https://[::1]:9/a", "/a", "[::1]:9"},
               {"http://h", "/", "h"},
               {"http://h?a", "/", "h"}};
  for (const auto& each : cases) {
    const absl::StatusOr<HttpTarget> read = ReadHttpTarget(each.target, {"own"}, true);
    ASSERT_TRUE(read.ok()) << each.target << ": " << read.status();
    EXPECT_EQ(read->path, each.path) << each.target;
    EXPECT_EQ(read->host, each.host) << each.target;
  }
}

TEST(HttpTargetTest, IsNothingElse) {
  for (const char* target : {"", "a", "*", "?/a", "http:/a", "http://", "http:///a", "ftp://h/a",
                             "http://user@h/a", "h:80"}) {
    EXPECT_FALSE(ReadHttpTarget(target, {"own"}, true).ok()) << target;
  }
}

TEST(HttpTargetTest, HasOneHost) {
  EXPECT_FALSE(ReadHttpTarget("/a", {}, true).ok());
  EXPECT_FALSE(ReadHttpTarget("http://h/a", {}, true).ok());
  EXPECT_EQ(ReadHttpTarget("/a", {}, false)->host, "") << "as in HTTP/1.0";
  for (const bool needs_host : {false, true}) {
    EXPECT_EQ(ReadHttpTarget("/a", {"localhost", "evil"}, needs_host).status().message(),
              "a request has one Host header; this one has 2");
    EXPECT_FALSE(ReadHttpTarget("/a", {"h", "h"}, needs_host).ok());
  }
}

}  // namespace
}  // namespace gemmd
