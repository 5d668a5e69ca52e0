// No secret of the server's or of its clients' comes into a log, a status or a help text.
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/digest/sha256.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/client/testing/subprocess.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/jwt_issuer.h"
#include "tests/testing/server_process.h"
#include "tests/testing/tls_client.h"
#include "tests/testing/token_entry.h"

namespace gemmd {
namespace {

using testing::FileBytes;

constexpr char kGood[] = "good-0123456789abcdef";
constexpr char kWrong[] = "wrong-0123456789abcdef";
constexpr long kNever = 1;  // 1970

class SecretsTest : public ::testing::Test {
 protected:
  std::string Policy() const {
    // Elsewhere the token is its own name.
    const std::string entry = testing::TokenEntry(kGood, "alice", "role: USER");
    return absl::StrReplaceAll(entry, {{absl::StrCat("\"", kGood, "\""), "\"ci\""}}) +
           "jwt { issuer: \"me\" audience: \"gemmd\" jwks_file: \"" + folder_.Path("keys") +
           "\" rule { subject: \"*\" tenant: \"$name\" role: USER } }";
  }

  grpc::Status Call(const testing::ServerProcess& server, const std::string& authorization) const {
    const testing::TlsClient client{FileBytes(authority_.certificate_file()), {}, "gemmd.test"};
    grpc::ClientContext context;
    context.AddMetadata("authorization", authorization);
    v1::StatisticsResponse response;
    return v1::Admin::NewStub(testing::TlsChannel(server.address(), client))
        ->Statistics(&context, {}, &response);
  }

  void ExpectNoSecret(const std::string& text, const std::string& where) const {
    std::vector<std::string> secrets = {kGood, kWrong};
    for (const char* token : {kGood, kWrong}) {
      secrets.push_back(absl::BytesToHexString(ToBytes(Sha256Of(token))));
    }
    // Each line of the key, in PEM.
    for (const absl::string_view line : absl::StrSplit(FileBytes(server_.key), '\n')) {
      if (line.size() > 20 && !absl::StartsWith(line, "---")) secrets.emplace_back(line);
    }
    secrets.push_back(ended_.substr(ended_.rfind('.')));
    for (const std::string& secret : secrets) {
      EXPECT_FALSE(absl::StrContains(text, secret)) << where << " has " << secret << "\n" << text;
    }
  }

  const testing::TemporaryDirectory folder_;
  const testing::CertificateAuthority authority_{"authority"};
  const testing::CertificateFiles server_ =
      authority_.Issue("server", {"/CN=server", "DNS:gemmd.test", "", ""});
  const testing::JwtKey key_{testing::JwtKey::Kind::kP256, "k"};
  const std::string keys_ = folder_.File("keys", testing::KeySet(key_.PublicJson()));
  const std::string ended_ = key_.Sign(testing::Claims("me", "gemmd", "a", kNever));
};

TEST_F(SecretsTest, AreInNoLogAndNoStatus) {
  const std::string policy = folder_.File("policy", Policy());
  testing::ServerProcess server({"--auth.policy-file=" + policy, "--log.level=debug",
                                 "--tls.certificate-file=" + server_.certificate,
                                 "--tls.key-file=" + server_.key});
  ASSERT_FALSE(server.address().empty()) << server.log();
  for (const std::string& authorization :
       {absl::StrCat("Bearer ", kGood), absl::StrCat("Bearer ", kWrong),
        absl::StrCat("Basic ", kWrong), "Bearer " + ended_,
        "Bearer " + ended_.substr(0, ended_.size() - 4), std::string(kWrong)}) {
    const grpc::Status status = Call(server, authorization);
    EXPECT_FALSE(status.ok());
    ExpectNoSecret(status.error_message() + status.error_details(), "a status");
  }
  server.Signal(SIGTERM);
  server.WaitForExit();
  EXPECT_TRUE(absl::StrContains(server.log(), "call_refused")) << server.log();
  ExpectNoSecret(server.log(), "the log");
}

// Slips of an editor: a digest in another field, and a key that is cut.
TEST_F(SecretsTest, AreInNoErrorOfTheFilesThatHaveThem) {
  const std::string digest = absl::BytesToHexString(ToBytes(Sha256Of(kGood)));
  for (const std::string& slip :
       {absl::StrCat("token { name: \"", digest, "\" }"), absl::StrCat("token { ", digest, " }"),
        absl::StrCat("token { role: ", digest, " }"),
        absl::StrCat("token { name: \"a\" sha256: \"", digest, "x\" }"), std::string(kGood)}) {
    const testing::ServerProcess server({"--auth.policy-file=" + folder_.File("policy", slip)});
    EXPECT_TRUE(server.address().empty());
    ExpectNoSecret(server.log(), "the log");
  }
  const std::string key = folder_.File("key", FileBytes(server_.key).substr(0, 150));
  const testing::ServerProcess server(
      {"--tls.certificate-file=" + server_.certificate, "--tls.key-file=" + key});
  EXPECT_TRUE(server.address().empty());
  ExpectNoSecret(server.log(), "the log");
}

TEST_F(SecretsTest, AreInNoHelp) {
  const std::string token = folder_.File("token", kGood);
  setenv("GEMMD_TOKEN_FILE", token.c_str(), 1);
  setenv("GEMMD_TLS_CLIENT_KEY", server_.key.c_str(), 1);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"server/gemmd", "--auth.policy-file=" + token, "--help"},
        std::vector<std::string>{"client/cli/gemm", "--token-file=" + token, "--help"},
        std::vector<std::string>{"client/cli/gemm", "info", "--help"}}) {
    const testing::ProcessResult result = testing::RunProcess(command);
    EXPECT_FALSE(result.output.empty());
    ExpectNoSecret(result.output + result.error, command[0]);
  }
}

}  // namespace
}  // namespace gemmd
