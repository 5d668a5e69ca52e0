#include "base/text/server_list.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<std::string>> Read(absl::string_view list) {
  return ServerTargets("--servers", ServerEntries(list));
}

TEST(ServerTargets, AreTheEntriesWithTheirPorts) {
  EXPECT_THAT(*Read("a:1"), ElementsAre("a:1"));
  EXPECT_THAT(*Read("a,b:7,unix:/run/g"), ElementsAre("a:50051", "b:7", "unix:/run/g"));
  EXPECT_THAT(*Read("dns:///gemmd,[::1]:5"), ElementsAre("dns:///gemmd:50051", "[::1]:5"));
  EXPECT_THAT(*Read("ipv4:10.0.0.1:5,10.0.0.2:5"), ElementsAre("ipv4:10.0.0.1:5,10.0.0.2:5"));
}

TEST(ServerTargets, RefusesAListByTheEntryThatIsWrong) {
  for (const auto& [list, words] :
       {std::pair("", "--servers is \"\", which names no server"),
        std::pair("a:1,,b", "entry 2 of --servers is \"\", which names no server"),
        std::pair("a:1,b:99999", "entry 2 of --servers is \"b:99999\", whose port is \"99999\""),
        std::pair("a:1,b:1,", "entry 3 of --servers is \"\""),
        std::pair("a:1, b:1", "entry 2 of --servers is \" b:1\""),
        std::pair("a,b,a:50051",
                  "entry 3 of --servers is \"a:50051\", which is the server of entry 1; each must "
                  "be there once")}) {
    const auto read = Read(list);
    ASSERT_FALSE(read.ok()) << list;
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(words));
  }
  EXPECT_THAT(std::string(ServerTargets("servers", {}).status().message()),
              HasSubstr("servers is empty"));
}

TEST(ServerTargets, HasALimit) {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < kMostServers; ++i) entries.push_back(absl::StrCat("host-", i));
  EXPECT_TRUE(ServerTargets("servers", entries).ok());
  entries.emplace_back("one-more");
  EXPECT_THAT(std::string(ServerTargets("servers", entries).status().message()),
              HasSubstr("servers has 257 entries; it must have at most 256"));
}

TEST(NameOfServers, IsOfANameThatGrpcWouldLookUp) {
  const auto found = NameOfServers("dns:///gemmd.lab:7");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->name, "gemmd.lab");
  EXPECT_EQ(found->port, "7");
  for (const char* target : {"dns:///127.0.0.1:7", "dns:///[::1]:7", "gemmd:7", "dns:gemmd:7",
                             "dns://8.8.8.8/gemmd:7", "unix:/dns:///a:7"}) {
    EXPECT_FALSE(NameOfServers(target).has_value()) << target;
  }
}

}  // namespace
}  // namespace gemmd
