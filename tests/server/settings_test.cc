#include "server/settings/settings.h"

#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "server/options/options.h"

namespace gemmd {
namespace {

// Reads options as the process does, with every other option at its default.
config::ServerConfig ConfigOf(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "gemmd");
  std::vector<char*> argv;
  argv.reserve(arguments.size());
  for (std::string& each : arguments) argv.push_back(each.data());
  auto command = ParseCommandLine(static_cast<int>(argv.size()), argv.data());
  EXPECT_TRUE(command.ok()) << command.status();
  return std::get<config::ServerConfig>(*command);
}

constexpr std::size_t kManyDescriptors = 1 << 20;

TEST(Settings, SharesOfTenantsArePercentOfTheWhole) {
  const config::ServerConfig config =
      ConfigOf({"--operands.max-operands=1000", "--operands.memory-bytes=1000000",
                "--operands.tenant-percent=30", "--shared-memory.max-regions=200",
                "--shared-memory.max-bytes=5000000", "--shared-memory.tenant-percent=20"});
  const StoreOptions store = OperandOptions(config, 0, {}, nullptr);
  EXPECT_EQ(store.all.operands, 1000U);
  EXPECT_EQ(store.all.bytes, 1000000U);
  EXPECT_EQ(store.tenant.operands, 300U);
  EXPECT_EQ(store.tenant.bytes, 300000U);
  const RegionOptions regions = SharedMemoryOptions(config.shared_memory(), nullptr);
  EXPECT_EQ(regions.tenant_regions, 40U);
  EXPECT_EQ(regions.tenant_bytes, 1000000U);
}

TEST(Settings, OperandsHaveHalfOfTheDevicesMemoryUnlessToldOtherwise) {
  const StoreOptions store = OperandOptions(ConfigOf({}), 1 << 20, {}, nullptr);
  EXPECT_EQ(store.all.bytes, 1U << 19);
}

TEST(Settings, OperandsAreCopiedUnlessToldOtherwise) {
  const auto copies = [](std::vector<std::string> arguments) {
    return OperandOptions(ConfigOf(std::move(arguments)), 0, {}, nullptr).makes_copies;
  };
  EXPECT_TRUE(copies({}));
  EXPECT_FALSE(copies({"--operands.copies=off"}));
}

TEST(Settings, AnAuthorityAloneAsksForCertificates) {
  const auto asked = [](std::vector<std::string> arguments) {
    return RpcOptions(ConfigOf(std::move(arguments)), kManyDescriptors).tls.client_certificates;
  };
  EXPECT_EQ(asked({}), ClientCertificates::kNone);
  const std::string certificate = "--tls.certificate-file=/c";
  const std::string key = "--tls.key-file=/k";
  const std::string authority = "--tls.client-ca-file=/a";
  EXPECT_EQ(asked({certificate, key}), ClientCertificates::kNone);
  EXPECT_EQ(asked({certificate, key, authority}), ClientCertificates::kRequired);
  EXPECT_EQ(asked({certificate, key, authority, "--tls.client-certificates=optional"}),
            ClientCertificates::kOptional);
}

TEST(Settings, OneAddressHasAQuarterOfTheConnectionsAndHalfOfTheCalls) {
  const config::ServerConfig config = ConfigOf({"--limits.connections=1001", "--limits.calls=501"});
  const GrpcServerOptions rpc = RpcOptions(config, kManyDescriptors);
  EXPECT_EQ(rpc.connections.all, 1001U);
  EXPECT_EQ(rpc.connections.per_peer, 251U);
  const CallWatch::Options watch = WatchOptions(config.limits(), rpc);
  EXPECT_EQ(watch.limits.calls, 501U);
  EXPECT_EQ(watch.limits.calls_per_address, 250U);
}

TEST(Settings, AThirdOfTheMemoryForMessagesHoldsALargestMessage) {
  const config::ServerConfig config =
      ConfigOf({"--limits.message-bytes=67108864", "--limits.receive-memory-bytes=67108864"});
  const GrpcServerOptions rpc = RpcOptions(config, kManyDescriptors);
  EXPECT_EQ(rpc.memory_bytes, 201326592U);
  const CallWatch::Options watch = WatchOptions(config.limits(), rpc);
  EXPECT_EQ(watch.partial.all, 67108864U);
  EXPECT_EQ(watch.partial.per_address, 67108864U);
  EXPECT_EQ(watch.partial.at_once, 83886080U);
}

TEST(Settings, ConnectionsAreNoMoreThanFileDescriptorsAllow) {
  const config::ServerConfig config = ConfigOf({"--limits.connections=100000"});
  EXPECT_LT(RpcOptions(config, 1024).connections.all, 1024U);
}

TEST(Settings, HighPriorityIsForAllOrForThoseNamed) {
  const auto who = [](const std::string& names) {
    return ClientPolicyOf(ConfigOf({"--scheduling.high-priority-tenants=" + names}), nullptr,
                          nullptr)
        .high_priority_tenants;
  };
  EXPECT_FALSE(who("*").has_value());
  EXPECT_EQ(*who("alice,auth:bob"), (std::set<std::string>{"alice", "auth:bob"}));
}

TEST(Settings, SamplesOfTheVerifierAreNoTwoServersSame) {
  const config::Verification config = ConfigOf({}).verification();
  EXPECT_NE(VerificationOptionsOf(config).seed, VerificationOptionsOf(config).seed);
}

}  // namespace
}  // namespace gemmd
