// Tests which tenant a client's certificate proves, by the policy's rules and without any.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gemmd/v1/operands.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/server_process.h"
#include "tests/testing/tls_client.h"

namespace gemmd {
namespace {

using testing::CertificateAuthority;
using testing::CertificateFiles;

class CertificateTenantsTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags) {
    const CertificateFiles own =
        authority_.Issue("server", {"/CN=server", "DNS:gemmd.test", "", ""});
    flags.push_back("--tls.certificate-file=" + own.certificate);
    flags.push_back("--tls.key-file=" + own.key);
    flags.push_back("--tls.client-ca-file=" + authority_.certificate_file());
    flags.emplace_back("--tls.client-certificates=optional");
    server_ = std::make_unique<testing::ServerProcess>(flags);
    ASSERT_FALSE(server_->address().empty()) << server_->log();
  }
  void StartWith(const std::string& policy) {
    const std::string path = folder_.Path("policy");
    std::ofstream(path) << policy;
    Start({"--auth.policy-file=" + path});
  }

  // Returns the end of a call whose client says that it is `tenant`.
  grpc::StatusCode CallAs(const CertificateFiles& certificate, const std::string& tenant,
                          const std::string& token = "") const {
    const testing::TlsClient client{testing::FileBytes(authority_.certificate_file()), certificate};
    const auto operands = v1::Operands::NewStub(testing::TlsChannel(server_->address(), client));
    grpc::ClientContext context;
    if (!tenant.empty()) context.AddMetadata("gemmd-tenant", tenant);
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    v1::ListResponse response;
    return operands->List(&context, {}, &response).error_code();
  }

  const testing::TemporaryDirectory folder_;
  const CertificateAuthority authority_{"authority"};
  std::unique_ptr<testing::ServerProcess> server_;
};

TEST_F(CertificateTenantsTest, AreThoseOfTheFirstRuleThatFits) {
  // The token is "token".
  StartWith(R"(
      certificate { spiffe_id: "spiffe://gemmd.test/ns/ml/*" tenant: "ml" role: USER }
      certificate { common_name: "ops" tenant: "operators" role: USER }
      certificate { common_name: "watcher" tenant: "watchers" role: OBSERVER }
      certificate { alternative_name: "*.gemmd.test" tenant: "never" role: USER }
      certificate { alternative_name: "host.gemmd.test" tenant: "$name" role: USER }
      token { name: "t" tenant: "tokens" role: USER
              sha256: "3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0" })");
  const CertificateFiles ml =
      authority_.Issue("ml", {"/CN=ops", "URI:spiffe://gemmd.test/ns/ml/sa/a", "", ""});
  EXPECT_EQ(CallAs(ml, "ml"), grpc::StatusCode::OK);
  EXPECT_EQ(CallAs(ml, ""), grpc::StatusCode::OK);
  EXPECT_EQ(CallAs(ml, "operators"), grpc::StatusCode::PERMISSION_DENIED);
  const CertificateFiles ops = authority_.Issue("ops", {"/CN=ops", "", "", ""});
  EXPECT_EQ(CallAs(ops, "operators"), grpc::StatusCode::OK);
  EXPECT_EQ(CallAs(ops, "ml"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(CallAs(authority_.Issue("watcher", {"/CN=watcher", "", "", ""}), ""),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(CallAs(authority_.Issue("host", {"/CN=x", "DNS:a.test,DNS:host.gemmd.test", "", ""}),
                   "host.gemmd.test"),
            grpc::StatusCode::OK);
  const CertificateFiles nobody = authority_.Issue("nobody", {"/CN=nobody", "", "", ""});
  EXPECT_EQ(CallAs(nobody, ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CallAs({}, ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CallAs({}, "tokens", "token"), grpc::StatusCode::OK);
  EXPECT_EQ(CallAs(nobody, "tokens", "token"), grpc::StatusCode::OK);
  EXPECT_EQ(CallAs(ml, "ml", "wrong"), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(CertificateTenantsTest, AreTheirOwnNamesWithoutAPolicy) {
  Start({});
  const CertificateFiles alice = authority_.Issue("alice", {"/CN=alice", "", "", ""});
  EXPECT_EQ(CallAs(alice, "alice"), grpc::StatusCode::OK);
  EXPECT_EQ(CallAs(alice, "bob"), grpc::StatusCode::PERMISSION_DENIED);
  const CertificateFiles named =
      authority_.Issue("named", {"/CN=alice", "URI:spiffe://gemmd.test/b", "", ""});
  EXPECT_EQ(CallAs(named, "spiffe://gemmd.test/b"), grpc::StatusCode::OK);
  EXPECT_EQ(CallAs({}, "alice"), grpc::StatusCode::OK) << "a claim, which is nobody's proof";
}

}  // namespace
}  // namespace gemmd
