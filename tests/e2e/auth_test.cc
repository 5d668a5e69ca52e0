// Tests authorization against a server of its own: every method by every role, tokens that end
// while they are in use, and the log.
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/operands.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/auth/method_roles.h"
#include "tests/testing/jwt_issuer.h"
#include "tests/testing/server_process.h"
#include "tests/testing/token_entry.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using testing::TokenEntry;

std::string UsualTokens() {
  return TokenEntry("user-token", "alice", "role: USER") +
         TokenEntry("observer-token", "watch", "role: OBSERVER") +
         TokenEntry("operator-token", "ops", "role: OPERATOR") +
         TokenEntry("bobs-token", "bob", "role: USER") +
         TokenEntry("old-token", "alice", "role: USER expires: \"2020-01-01T00:00:00Z\"");
}

void Show(const std::string& token, grpc::ClientContext* context) {
  if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
}

// Returns the end of a call of an empty message, or OK once it was answered.
grpc::Status CallOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                    const std::string& token) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  Show(token, &context);
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  };
  const auto stream = stub.PrepareCall(&context, method, &queue);
  stream->StartCall(nullptr);
  await();
  const grpc::Slice none;
  const grpc::ByteBuffer request(&none, 1);
  stream->WriteLast(request, {}, nullptr);
  await();
  grpc::ByteBuffer response;
  stream->Read(&response, nullptr);
  const bool is_answered = await();
  if (is_answered) context.TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  await();
  queue.Shutdown();
  return is_answered ? grpc::Status::OK : status;
}

struct NamingCall {
  const char* method;
  std::function<grpc::Status(const std::shared_ptr<grpc::Channel>&, const std::string&)> call;
};

// The calls that take an operand's handle, as bob.
std::vector<NamingCall> NamingCalls() {
  using Channel = std::shared_ptr<grpc::Channel>;
  const auto ask = [](const auto& function) {
    return [function](const Channel& channel, const std::string& handle) {
      grpc::ClientContext context;
      Show("bobs-token", &context);
      const auto stub = v1::Operands::NewStub(channel);
      return function(stub.get(), &context, handle);
    };
  };
  using Stub = v1::Operands::Stub;
  using Context = grpc::ClientContext;
  return {
      {"Get", ask([](Stub* stub, Context* context, const std::string& handle) {
         v1::GetRequest request;
         request.set_handle(handle);
         v1::GetResponse response;
         return stub->Get(context, request, &response);
       })},
      {"Renew", ask([](Stub* stub, Context* context, const std::string& handle) {
         v1::RenewRequest request;
         request.set_handle(handle);
         v1::RenewResponse response;
         return stub->Renew(context, request, &response);
       })},
      {"Release", ask([](Stub* stub, Context* context, const std::string& handle) {
         v1::ReleaseRequest request;
         request.set_handle(handle);
         v1::ReleaseResponse response;
         return stub->Release(context, request, &response);
       })},
      {"Download", ask([](Stub* stub, Context* context, const std::string& handle) {
         v1::DownloadRequest request;
         request.set_handle(handle);
         const auto reader = stub->Download(context, request);
         v1::DownloadResponse response;
         while (reader->Read(&response)) {
         }
         return reader->Finish();
       })},
  };
}

class AuthTest : public ::testing::Test {
 protected:
  ~AuthTest() override { std::remove(path_.c_str()); }

  void Write(const std::string& text) const {
    const std::string next = path_ + ".next";
    std::ofstream(next) << text;
    std::rename(next.c_str(), path_.c_str());
  }
  void Start(const std::string& policy) {
    Write(policy);
    server_ = std::make_unique<testing::ServerProcess>(
        std::vector<std::string>{"--auth.policy-file=" + path_, "--channelz=on"});
    ASSERT_FALSE(server_->address().empty()) << server_->log();
    channel_ = server_->NewChannel();
  }

  grpc::Status MatmulAs(const std::string& token, const v1::MatmulRequest& request,
                        v1::MatmulResponse* response) const {
    grpc::ClientContext context;
    Show(token, &context);
    return v1::Gemm::NewStub(channel_)->Matmul(&context, request, response);
  }
  int CountResidents(const std::string& token) const {
    grpc::ClientContext context;
    Show(token, &context);
    v1::ListResponse response;
    EXPECT_TRUE(v1::Operands::NewStub(channel_)->List(&context, {}, &response).ok());
    return response.residents_size();
  }
  grpc::Status GetAs(const std::string& token, const std::string& handle) const {
    grpc::ClientContext context;
    Show(token, &context);
    v1::GetRequest request;
    request.set_handle(handle);
    v1::GetResponse response;
    return v1::Operands::NewStub(channel_)->Get(&context, request, &response);
  }

  const std::string path_ = ::testing::TempDir() + "/policy.textproto";
  std::unique_ptr<testing::ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(AuthTest, EveryMethodServesItsRolesAndNoOthers) {
  Start(UsualTokens());
  struct Caller {
    std::string token;
    Roles roles;
  };
  for (const Caller& caller :
       {Caller{"", {}}, Caller{"user-token", {Role::kUser}},
        Caller{"observer-token", {Role::kObserver}}, Caller{"operator-token", {Role::kOperator}}}) {
    for (const MethodRoles& each : AllMethodRoles()) {
      const bool may = each.any_of.empty() || caller.roles.HasAnyOf(each.any_of);
      const grpc::Status status = CallOf(channel_, each.method, caller.token);
      const auto refusal = caller.roles.empty() ? grpc::StatusCode::UNAUTHENTICATED
                                                : grpc::StatusCode::PERMISSION_DENIED;
      const bool is_refused = status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                              status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
      if (may) {
        EXPECT_FALSE(is_refused) << each.method << " as \"" << caller.token
                                 << "\": " << status.error_message();
      } else {
        EXPECT_EQ(status.error_code(), refusal) << each.method << " as \"" << caller.token << "\"";
      }
    }
  }
}

TEST_F(AuthTest, WrongAndOldTokensAreRefusedAndLoggedWithoutTheToken) {
  Start(UsualTokens());
  const std::string method = "/gemmd.v1.Admin/ServerInfo";
  for (const char* token : {"some-secret", "old-token"}) {
    EXPECT_EQ(CallOf(channel_, method, token).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  EXPECT_EQ(CallOf(channel_, "/gemmd.v1.Admin/Tune", "user-token").error_message(),
            "/gemmd.v1.Admin/Tune asks for the role operator; the caller, token user-token, has "
            "user");
  EXPECT_TRUE(CallOf(channel_, "/gemmd.v1.Admin/Statistics", "observer-token").ok());
  server_->Signal(SIGTERM);
  server_->WaitForExit();
  const std::string& log = server_->log();
  EXPECT_TRUE(absl::StrContains(log, "the token is none that the server knows")) << log;
  EXPECT_TRUE(absl::StrContains(log, "the token ended at 2020-01-01T00:00:00")) << log;
  EXPECT_TRUE(absl::StrContains(log, "\"event\":\"call_audited\"")) << log;
  EXPECT_TRUE(absl::StrContains(log, "token observer-token")) << log;
  EXPECT_TRUE(absl::StrContains(log, "\"who\":\"token user-token\",\"tenant\":\"auth:alice\""))
      << log;
  EXPECT_FALSE(absl::StrContains(log, "some-secret")) << log;
}

TEST_F(AuthTest, ATenantsMatricesAreItsOwn) {
  Start("anonymous { role: USER }\n" + UsualTokens());
  v1::MatmulRequest request = testing::ZeroRequest(4);
  request.mutable_header()->mutable_keep_result();
  v1::MatmulResponse kept;
  ASSERT_TRUE(MatmulAs("user-token", request, &kept).ok());
  EXPECT_EQ(CountResidents("user-token"), 1);
  EXPECT_EQ(CountResidents("bobs-token"), 0);
  EXPECT_TRUE(GetAs("user-token", kept.handle()).ok());
  const grpc::Status foreign = GetAs("bobs-token", kept.handle());
  EXPECT_EQ(foreign.error_code(), grpc::StatusCode::NOT_FOUND);
  // A claim to be alice is not alice.
  grpc::ClientContext context;
  context.AddMetadata("gemmd-tenant", "alice");
  v1::ListResponse response;
  ASSERT_TRUE(v1::Operands::NewStub(channel_)->List(&context, {}, &response).ok());
  EXPECT_EQ(response.residents_size(), 0);
}

// A refusal would otherwise tell whether somebody has the operand.
TEST_F(AuthTest, AnothersHandleIsAnsweredAsOneThatNobodyHas) {
  Start(UsualTokens());
  v1::MatmulRequest request = testing::ZeroRequest(4);
  request.mutable_header()->mutable_keep_result();
  v1::MatmulResponse kept;
  ASSERT_TRUE(MatmulAs("user-token", request, &kept).ok());
  ASSERT_FALSE(kept.handle().empty());
  std::string nobodys = kept.handle();
  nobodys.back() = nobodys.back() == '0' ? '1' : '0';
  for (const NamingCall& each : NamingCalls()) {
    const grpc::Status foreign = each.call(channel_, kept.handle());
    const grpc::Status absent = each.call(channel_, nobodys);
    EXPECT_EQ(absent.error_code(), grpc::StatusCode::NOT_FOUND) << each.method;
    EXPECT_EQ(foreign.error_code(), absent.error_code()) << each.method;
    const std::vector<std::pair<std::string, std::string>> renamed = {{kept.handle(), nobodys}};
    EXPECT_EQ(absl::StrReplaceAll(foreign.error_message(), renamed), absent.error_message())
        << each.method;
    EXPECT_EQ(absl::StrReplaceAll(foreign.error_details(), renamed), absent.error_details())
        << each.method;
  }
  EXPECT_TRUE(GetAs("user-token", kept.handle()).ok()) << "a stranger has released it";
}

// Only the read of a stream tells that its token has gone: each request is asked for anew.
TEST_F(AuthTest, ATokenThatIsRemovedEndsTheRequestsOfItsStreams) {
  Start(UsualTokens());
  grpc::ClientContext context;
  Show("user-token", &context);
  const auto stream = v1::Gemm::NewStub(channel_)->MatmulStream(&context);
  std::uint64_t id = 0;
  const auto multiply = [&] {
    v1::MatmulStreamRequest request;
    const v1::MatmulRequest whole = testing::ZeroRequest(4);
    request.mutable_begin()->set_request_id(++id);
    *request.mutable_begin()->mutable_header() = whole.header();
    for (const v1::Chunk& chunk : whole.payload()) {
      *request.mutable_begin()->add_payload() = chunk;
      request.mutable_begin()->mutable_payload()->rbegin()->set_request_id(id);
    }
    EXPECT_TRUE(stream->Write(request));
    v1::MatmulStreamResponse response;
    while (stream->Read(&response)) {
      if (response.has_finished()) return static_cast<int>(response.finished().code());
    }
    ADD_FAILURE() << "the stream has ended";
    return -1;
  };
  EXPECT_EQ(multiply(), grpc::StatusCode::OK);
  Write(TokenEntry("bobs-token", "bob", "role: USER"));
  server_->Signal(SIGHUP);
  int code = grpc::StatusCode::OK;
  while (code == grpc::StatusCode::OK) code = multiply();
  EXPECT_EQ(code, grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CallOf(channel_, "/gemmd.v1.Admin/ServerInfo", "user-token").error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// Signed by an issuer whose keys the policy names, and for no longer than that.
TEST_F(AuthTest, AJsonWebTokenProvesATenantUntilItsKeyGoes) {
  const testing::JwtKey old_key(testing::JwtKey::Kind::kRsa2048, "old");
  const testing::JwtKey new_key(testing::JwtKey::Kind::kP256, "new");
  const std::string keys = ::testing::TempDir() + "/jwks.json";
  const auto write_keys = [&keys](const std::string& text) {
    std::ofstream(keys + ".next") << text;
    std::rename((keys + ".next").c_str(), keys.c_str());
  };
  write_keys(testing::KeySet(old_key.PublicJson()));
  Start(UsualTokens() + "jwt { issuer: \"https://id.test\" audience: \"gemmd\" jwks_file: \"" +
        keys + "\" rule { subject: \"alice\" tenant: \"$name\" role: USER } }");
  const auto claims = [](const std::string& subject, absl::Duration life) {
    return testing::Claims("https://id.test", "gemmd", subject,
                           absl::ToUnixSeconds(absl::Now() + life));
  };
  const std::string old_token = old_key.Sign(claims("alice", absl::Hours(1)));
  const std::string new_token = new_key.Sign(claims("alice", absl::Hours(1)));
  v1::MatmulRequest request = testing::ZeroRequest(4);
  request.mutable_header()->mutable_keep_result();
  v1::MatmulResponse kept;
  const grpc::Status kept_status = MatmulAs(old_token, request, &kept);
  ASSERT_TRUE(kept_status.ok()) << kept_status.error_message();
  EXPECT_TRUE(GetAs("user-token", kept.handle()).ok()) << "both are alice";
  EXPECT_EQ(GetAs("bobs-token", kept.handle()).error_code(), grpc::StatusCode::NOT_FOUND);
  const std::string statistics = "/gemmd.v1.Admin/Statistics";
  EXPECT_EQ(CallOf(channel_, statistics, old_token).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  for (const std::string& bad : {old_key.Sign(claims("alice", -absl::Hours(1))),
                                 old_key.Sign(claims("bob", absl::Hours(1))), new_token}) {
    EXPECT_EQ(CallOf(channel_, statistics, bad).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  // Both keys, until all tokens are of the new one.
  for (const std::string& set :
       {old_key.PublicJson() + "," + new_key.PublicJson(), new_key.PublicJson()}) {
    write_keys(testing::KeySet(set));
    server_->Signal(SIGHUP);
    while (!GetAs(new_token, kept.handle()).ok()) {
    }
  }
  while (GetAs(old_token, kept.handle()).ok()) {
  }
  EXPECT_EQ(GetAs(old_token, kept.handle()).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  server_->Signal(SIGTERM);
  server_->WaitForExit();
  EXPECT_FALSE(absl::StrContains(server_->log(), old_token.substr(old_token.rfind('.'))));
  std::remove(keys.c_str());
}

// The client library sends the token with each of its calls.
TEST_F(AuthTest, TheClientShowsItsToken) {
  Start(UsualTokens());
  client::ClientOptions options;
  options.channel.target = server_->address();
  EXPECT_EQ(client::Client(options).ServerInfo().status().code(),
            absl::StatusCode::kUnauthenticated);
  options.channel.token = "user-token";
  client::Client user(options);
  EXPECT_TRUE(user.ServerInfo().ok());
  EXPECT_EQ(user.Statistics().status().code(), absl::StatusCode::kPermissionDenied);
  client::Operands operands(options);
  EXPECT_TRUE(operands.List().ok());
  options.channel.tenant = "bob";
  EXPECT_EQ(client::Operands(options).List().status().code(), absl::StatusCode::kPermissionDenied);
  options.channel.tenant = "alice";
  EXPECT_TRUE(client::Operands(options).List().ok());
}

// Ten policies while calls go on: not one of them fails.
TEST_F(AuthTest, CallsGoOnWhileThePolicyChanges) {
  Start(UsualTokens());
  for (int i = 0; i < 10; ++i) {
    const std::string added = absl::StrCat("token-", i);
    Write(UsualTokens() + TokenEntry(added, "alice", "role: USER"));
    server_->Signal(SIGHUP);
    while (!CallOf(channel_, "/gemmd.v1.Admin/ServerInfo", added).ok()) {
      v1::MatmulResponse response;
      ASSERT_TRUE(MatmulAs("user-token", testing::ZeroRequest(4), &response).ok());
    }
  }
}

absl::StatusOr<v1::TenantQuota> QuotaOf(const std::string& address, const std::string& tenant) {
  client::ClientOptions options;
  options.channel.target = address;
  options.channel.token = "observer-token";
  v1::StatisticsRequest request;
  request.set_tenant(tenant);
  absl::StatusOr<v1::StatisticsResponse> statistics = client::Client(options).Statistics(request);
  if (!statistics.ok()) return statistics.status();
  return statistics->quota();
}

// They name everybody's addresses.
TEST_F(AuthTest, HoldersAreToldToOperatorsAlone) {
  Start(UsualTokens() + "quota { tenant: \"alice\" connections: 9 }");
  v1::MatmulResponse response;
  ASSERT_TRUE(MatmulAs("user-token", testing::ZeroRequest(16), &response).ok());
  const auto ask = [this](const std::string& token, std::uint32_t holders) {
    client::ClientOptions options;
    options.channel.target = server_->address();
    options.channel.token = token;
    v1::StatisticsRequest request;
    request.set_holders(holders);
    return client::Client(options).Statistics(request);
  };
  const auto told = ask("operator-token", 3);
  ASSERT_TRUE(told.ok()) << told.status();
  std::set<std::string> quantities;
  bool has_alice = false;
  for (const v1::Holding& each : told->holdings()) {
    quantities.insert(each.quantity());
    if (each.quantity() != "quota_connections" || each.name() != "auth:alice") continue;
    EXPECT_EQ(each.party(), v1::Holding::TENANT);
    EXPECT_EQ(each.held(), 1U);
    EXPECT_EQ(each.limit(), 9U);
    has_alice = true;
  }
  EXPECT_TRUE(has_alice);
  for (const char* each : {"device_bytes", "operand_bytes", "region_bytes", "connections", "calls",
                           "slow_messages", "quota_requests"}) {
    EXPECT_EQ(quantities.count(each), 1U) << each;
  }
  EXPECT_EQ(ask("observer-token", 3).status().message(),
            "holders is 3, which is for operators; the caller is observer");
  EXPECT_EQ(ask("observer-token", 0)->holdings_size(), 0);
  EXPECT_EQ(ask("operator-token", 101).status(),
            absl::InvalidArgumentError("holders is 101; it may be at most 100"));
}

TEST_F(AuthTest, ATenantsQuotaRefusesItAndNobodyElseAndChangesWithTheFile) {
  const v1::MatmulRequest request = testing::ZeroRequest(16);
  v1::MatmulResponse response;
  Start(UsualTokens() + "quota { tenant: \"alice\" request_bytes: 3071 regions: 2 }");
  const grpc::Status large = MatmulAs("user-token", request, &response);
  EXPECT_EQ(large.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(large.error_message(),
            "the tenant's quota of request_bytes is 3071, and this takes 3072");
  EXPECT_TRUE(MatmulAs("bobs-token", request, &response).ok());

  // A millisecond of device time for each 1000 s: the first product is owed for long.
  const auto write = [&](const std::string& quota) {
    Write(UsualTokens() + "quota { tenant: \"alice\" " + quota + " }");
    server_->Signal(SIGHUP);
  };
  write("device_ms_per_second: 0.001");
  grpc::Status owed;
  do {
    owed = MatmulAs("user-token", request, &response);
  } while (owed.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(absl::StartsWith(owed.error_message(),
                               "the tenant's quota of device_ms_per_second is 0.001, "))
      << owed.error_message();
  EXPECT_TRUE(MatmulAs("bobs-token", request, &response).ok());
  const absl::StatusOr<v1::TenantQuota> quota = QuotaOf(server_->address(), "alice");
  ASSERT_TRUE(quota.ok()) << quota.status();
  EXPECT_EQ(quota->device_ms_per_second(), 0.001);
  EXPECT_GT(quota->owed_ms(), 0);
  ASSERT_EQ(quota->uses_size(), 5);
  EXPECT_EQ(quota->uses(0).quota(), "requests");
  EXPECT_EQ(quota->uses(0).used(), 0U);
  EXPECT_FALSE(quota->uses(0).has_limit());

  write("requests: 8");
  while (!MatmulAs("user-token", request, &response).ok()) {
  }
  server_->Signal(SIGTERM);
  server_->WaitForExit();
  const std::string line =
      "\"event\":\"quota_refused\",\"method\":\"/gemmd.v1.Gemm/Matmul\",\"peer\":\"ipv4:127.0.0.1:";
  const std::size_t at = server_->log().find(line);
  ASSERT_NE(at, std::string::npos) << server_->log();
  EXPECT_EQ(server_->log().find("\"tenant\":\"auth:alice\",\"code\":\"INVALID_ARGUMENT\"", at),
            server_->log().find("\"tenant\"", at));
}

TEST_F(AuthTest, ATenantsConnectionsAreCountedUntilTheyAreClosed) {
  Start(UsualTokens() + "quota { tenant: \"alice\" connections: 2 }");
  const v1::MatmulRequest request = testing::ZeroRequest(4);
  const auto multiply = [&request](const std::shared_ptr<grpc::Channel>& channel,
                                   const std::string& token) {
    grpc::ClientContext context;
    Show(token, &context);
    v1::MatmulResponse response;
    return v1::Gemm::NewStub(channel)->Matmul(&context, request, &response);
  };
  const auto first = server_->NewChannel();
  auto second = server_->NewChannel();
  const auto third = server_->NewChannel();
  EXPECT_TRUE(multiply(first, "user-token").ok());
  EXPECT_TRUE(multiply(second, "user-token").ok());
  const grpc::Status refused = multiply(third, "user-token");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(),
            "the tenant's quota of connections is 2, 2 are taken, and this takes 1");
  EXPECT_TRUE(multiply(third, "bobs-token").ok());
  EXPECT_TRUE(multiply(first, "user-token").ok());
  const absl::StatusOr<v1::TenantQuota> quota = QuotaOf(server_->address(), "alice");
  ASSERT_TRUE(quota.ok()) << quota.status();
  EXPECT_EQ(quota->uses(4).quota(), "connections");
  EXPECT_EQ(quota->uses(4).used(), 2U);
  EXPECT_EQ(quota->uses(4).limit(), 2U);
  second.reset();
  while (!multiply(third, "user-token").ok()) {
  }
}

TEST_F(AuthTest, WhatStaysAndWhatComesIsCountedInTheQuota) {
  Start(UsualTokens() + "quota { tenant: \"alice\" resident_bytes: 2048 }");
  v1::MatmulRequest request = testing::ZeroRequest(16);
  request.mutable_header()->mutable_keep_result();
  v1::MatmulResponse response;
  ASSERT_TRUE(MatmulAs("user-token", request, &response).ok());
  ASSERT_TRUE(MatmulAs("user-token", request, &response).ok());
  absl::StatusOr<v1::TenantQuota> quota = QuotaOf(server_->address(), "alice");
  ASSERT_TRUE(quota.ok()) << quota.status();
  EXPECT_EQ(quota->uses(2).quota(), "resident_bytes");
  EXPECT_EQ(quota->uses(2).used(), 2048U);
  EXPECT_EQ(quota->uses(2).limit(), 2048U);
  const grpc::Status full = MatmulAs("user-token", request, &response);
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(full.error_message(),
            "the tenant's quota of resident_bytes is 2048, 2048 are taken, and this takes 1024");
  EXPECT_TRUE(MatmulAs("bobs-token", request, &response).ok());
  EXPECT_EQ(QuotaOf(server_->address(), std::string(4097, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(AuthStart, ABadPolicyIsNoStart) {
  const testing::ServerProcess server({"--auth.policy-file=/nowhere/policy"});
  EXPECT_TRUE(server.address().empty());
  EXPECT_TRUE(absl::StrContains(server.log(), "/nowhere/policy")) << server.log();
}

}  // namespace
}  // namespace gemmd
