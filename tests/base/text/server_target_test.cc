#include "base/text/server_target.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(ServerTarget, IsTheAddressWithAPort) {
  for (const char* address :
       {"127.0.0.1:50051", "gpu-node:1", "gpu_node.lab:65535", "[::1]:50051", "[::]:9",
        "[fe80::1%eth0]:5", "unix:/run/g", "unix:///run/my g", "unix:g.sock", "unix-abstract:g",
        "dns:///gpu-node:50051", "dns:gpu:50051", "dns://8.8.8.8/gpu-node:50051",
        "ipv4:10.0.0.1:5,10.0.0.2:5", "ipv6:[::1]:5", "xds:///gemmd"}) {
    const absl::StatusOr<std::string> target = ServerTarget("--server", address);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(*target, address);
  }
}

TEST(ServerTarget, HasTheDefaultPortWhereNoneWasGiven) {
  for (const auto& [address, expected] :
       {std::pair("gpu-node", "gpu-node:50051"), std::pair("127.0.0.1", "127.0.0.1:50051"),
        std::pair("[::1]", "[::1]:50051"), std::pair("dns:///gpu-node", "dns:///gpu-node:50051"),
        std::pair("dns:gpu", "dns:gpu:50051"),
        std::pair("dns://8.8.8.8/gpu", "dns://8.8.8.8/gpu:50051"),
        std::pair("ipv4:10.0.0.1,10.0.0.2:5", "ipv4:10.0.0.1:50051,10.0.0.2:5")}) {
    const absl::StatusOr<std::string> target = ServerTarget("--server", address);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(*target, expected);
  }
}

TEST(ServerTarget, RefusesWhatNamesNoServerOrNoPort) {
  for (const char* address : {"",
                              "gpu-node:",
                              "gpu-node:0",
                              "gpu-node:65536",
                              "gpu:99999",
                              "gpu-node:http",
                              "gpu-node:+5",
                              "gpu-node:-5",
                              "gpu: 5",
                              "gpu-node:5 ",
                              ":50051",
                              "::1",
                              "[]:5",
                              "fe80::1:50051",
                              "[::1]50051",
                              "[::1",
                              "unix:",
                              "unix-abstract:",
                              "dns:",
                              "dns:///",
                              "dns://x",
                              "dns:///gpu:99999",
                              "gpu:999999999999999",
                              "ipv4:",
                              " gpu:5",
                              "gpu node:5",
                              "\"gpu:5\"",
                              "'gpu:5'",
                              "gpu:5\n",
                              "gpu:5/",
                              "gpu/x:5",
                              "user@gpu:5",
                              "a,b:5",
                              "ipv4:1.2.3.4:99999",
                              "http://gpu:50051",
                              "https://gpu:50051",
                              "grpc://g",
                              "tcp://gpu:50051",
                              "caf\xc3\xa9:5",
                              "gpu\t:5"}) {
    EXPECT_FALSE(ServerTarget("--server", address).ok()) << address;
  }
}

TEST(ServerTarget, ErrorsNameFieldValueAndLimit) {
  const std::string end = "; it must be HOST or HOST:PORT, with a port of 1 to 65535";
  for (const auto& [address, why] : {
           std::pair("a:99999", "--server is \"a:99999\", whose port is \"99999\""),
           std::pair("http://a:5",
                     "--server is \"http://a:5\", whose \"http://\" is no scheme of "
                     "gRPC's"),
           std::pair("a b:5", "--server is \"a b:5\", whose host has \" \""),
           std::pair("", "--server is \"\", which names no server"),
       }) {
    EXPECT_EQ(ServerTarget("--server", address).status().message(), why + end);
  }
}

}  // namespace
}  // namespace gemmd
