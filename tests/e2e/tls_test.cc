// Tests who may connect to a server that speaks TLS, and what happens while its files change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "tests/client/testing/subprocess.h"
#include "tests/testing/server_process.h"
#include "tests/testing/tls_client.h"
#include "tests/testing/token_entry.h"

namespace gemmd {
namespace {

using testing::CertificateAuthority;
using testing::CertificateFiles;
using testing::CheckHealth;
using testing::FileBytes;
using testing::ReplaceFile;
using testing::ServerProcess;
using testing::TlsClient;

const CertificateAuthority& Authority() {
  static const CertificateAuthority& authority = *new CertificateAuthority("authority");
  return authority;
}

CertificateFiles ServerCertificate() {
  static const CertificateFiles files =
      Authority().Issue("server", {"/CN=server", "DNS:gemmd.test", "", ""});
  return files;
}

std::vector<std::string> Flags(const std::string& client_certificates) {
  return {"--tls.certificate-file=" + ServerCertificate().certificate,
          "--tls.key-file=" + ServerCertificate().key,
          "--tls.client-ca-file=" + Authority().certificate_file(),
          "--tls.crl-directory=" + Authority().WriteRevocations(),
          "--tls.client-certificates=" + client_certificates};
}

struct Case {
  std::string name;
  CertificateFiles certificate;
  bool is_good;
};

// Each client certificate that there may be; none is one of them.
std::vector<Case> Cases() {
  static const testing::TemporaryDirectory& folder = *new testing::TemporaryDirectory;
  static const CertificateAuthority& stranger = *new CertificateAuthority("stranger");
  // An authority of the same name as the one that is trusted.
  static const CertificateAuthority& namesake = *new CertificateAuthority("authority");
  const CertificateAuthority& authority = Authority();
  const CertificateFiles revoked = authority.Issue("revoked", {"/CN=revoked", "", "", ""});
  authority.Revoke(revoked);
  return {
      {"good", authority.Issue("good", {"/CN=good", "", "", ""}), true},
      {"good, with names only",
       authority.Issue("named", {"/", "URI:spiffe://example.org/named", "", ""}), true},
      {"expired",
       authority.Issue("expired", {"/CN=expired", "", "20200101000000Z", "20200102000000Z"}),
       false},
      {"not yet valid",
       authority.Issue("early", {"/CN=early", "", "20990101000000Z", "20990102000000Z"}), false},
      {"revoked", revoked, false},
      {"of another authority", stranger.Issue("stranger", {"/CN=stranger", "", "", ""}), false},
      {"of a namesake", namesake.Issue("namesake", {"/CN=good", "", "", ""}), false},
      {"self-made", testing::MakeSelfMade(folder, "good"), false},
  };
}

TlsClient ClientWith(const CertificateFiles& certificate) {
  return {FileBytes(Authority().certificate_file()), certificate, "gemmd.test"};
}

TEST(Tls, WhereCertificatesAreRequiredOnlyGoodOnesConnect) {
  const std::vector<Case> cases = Cases();
  const ServerProcess server(Flags("required"));
  for (const Case& each : cases) {
    const grpc::Status status = CheckHealth(server.address(), ClientWith(each.certificate));
    EXPECT_EQ(status.ok(), each.is_good) << each.name << ": " << status.error_message();
  }
  EXPECT_FALSE(CheckHealth(server.address(), ClientWith({})).ok());
  EXPECT_FALSE(CheckHealth(server.NewChannel()).ok()) << "plaintext";
}

TEST(Tls, WhereCertificatesAreOptionalNoneConnectsAndABadOneDoesNot) {
  const std::vector<Case> cases = Cases();
  const ServerProcess server(Flags("optional"));
  for (const Case& each : cases) {
    const grpc::Status status = CheckHealth(server.address(), ClientWith(each.certificate));
    EXPECT_EQ(status.ok(), each.is_good) << each.name << ": " << status.error_message();
  }
  EXPECT_TRUE(CheckHealth(server.address(), ClientWith({})).ok());
}

TEST(Tls, AnAuthorityAloneMeansThatCertificatesAreRequired) {
  const CertificateFiles good = Authority().Issue("alone", {"/CN=alone", "", "", ""});
  const ServerProcess with_authority(Flags("auto"));
  EXPECT_TRUE(CheckHealth(with_authority.address(), ClientWith(good)).ok());
  EXPECT_FALSE(CheckHealth(with_authority.address(), ClientWith({})).ok());
  const ServerProcess without({"--tls.certificate-file=" + ServerCertificate().certificate,
                               "--tls.key-file=" + ServerCertificate().key});
  EXPECT_TRUE(CheckHealth(without.address(), ClientWith({})).ok());
}

TEST(Tls, AClientRefusesAServerOfAnotherNameOrAuthority) {
  const ServerProcess server(Flags("none"));
  EXPECT_TRUE(CheckHealth(server.address(), ClientWith({})).ok());
  TlsClient wrong_name = ClientWith({});
  wrong_name.server_name = "else.test";
  EXPECT_THAT(CheckHealth(server.address(), wrong_name).error_message(),
              ::testing::HasSubstr("else.test is not in peer certificate"));
  TlsClient wrong_root = ClientWith({});
  wrong_root.roots = FileBytes(CertificateAuthority("other").certificate_file());
  EXPECT_THAT(CheckHealth(server.address(), wrong_root).error_message(),
              ::testing::HasSubstr("certificate verify failed"));
}

// openssl s_client's exit code is 0 where the handshake is done.
TEST(Tls, ProtocolsBefore12AreRefused) {
  const ServerProcess server(Flags("none"));
  const auto connects = [&server](const std::string& protocol) {
    return testing::RunProcess({"openssl", "s_client", "-cipher", "DEFAULT:@SECLEVEL=0", protocol,
                                "-alpn", "h2", "-connect", server.address()})
               .exit_code == 0;
  };
  EXPECT_FALSE(connects("-tls1"));
  EXPECT_FALSE(connects("-tls1_1"));
  EXPECT_TRUE(connects("-tls1_2"));
  EXPECT_TRUE(connects("-tls1_3"));
}

TEST(Tls, WhereOthersConnectPlainTextMustBeSaidAndIsWarnedOf) {
  const ServerProcess unsaid({"--listen=0.0.0.0:0"});
  EXPECT_TRUE(unsaid.address().empty());
  EXPECT_THAT(unsaid.log(), ::testing::HasSubstr("--insecure"));
  for (const std::string listen : {"0.0.0.0:0", "127.0.0.1:0"}) {
    ServerProcess server({"--listen=" + listen, "--insecure"});
    EXPECT_FALSE(server.address().empty()) << server.log();
    server.Signal(SIGTERM);
    server.WaitForExit();
    const bool is_warned = server.log().find("\"event\":\"insecure\"") != std::string::npos;
    EXPECT_EQ(is_warned, listen == "0.0.0.0:0") << server.log();
  }
}

// One step of the rotation, as clients know it.
struct Generation {
  std::unique_ptr<CertificateAuthority> authority;
  CertificateFiles server;
  CertificateFiles client;
  std::string token;
};

std::string TokenEntry(const std::string& token) {
  return testing::TokenEntry(token, "a", "role: USER");
}

grpc::Status CallWithToken(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& token) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + token);
  v1::ServerInfoResponse response;
  return v1::Admin::NewStub(channel)->ServerInfo(&context, {}, &response);
}

// Calls without end, each over a new connection or all over one, and counts those that fail.
class Load {
 public:
  Load(const std::string& address, const std::string& roots, bool is_on_one_connection,
       const std::vector<Generation>* generations, const std::atomic<int>* current)
      : thread_([=] {
          const auto channel = [=](int generation) {
            return testing::TlsChannel(address,
                                       {roots, (*generations)[generation].client, "gemmd.test"});
          };
          const auto old = channel(0);
          while (!is_over_) {
            const int generation = *current;
            const grpc::Status status = CallWithToken(
                is_on_one_connection ? old : channel(generation), (*generations)[generation].token);
            EXPECT_TRUE(status.ok()) << status.error_message();
            ++calls_;
            reached_ = generation;
          }
        }) {}
  ~Load() {
    is_over_ = true;
    thread_.join();
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // The latest generation that a whole call knew.
  int reached() const { return reached_; }
  int calls() const { return calls_; }

 private:
  std::atomic<bool> is_over_{false};
  std::atomic<int> reached_{-1};
  std::atomic<int> calls_{0};
  std::thread thread_;
};

TEST(Tls, CertificatesAuthoritiesAndTokensRotateTenTimesUnderLoadWithoutAFailedCall) {
  constexpr int kRotations = 10;
  std::vector<Generation> generations(kRotations + 1);
  std::string roots;
  for (int i = 0; i <= kRotations; ++i) {
    auto authority = std::make_unique<CertificateAuthority>(absl::StrCat("generation", i));
    generations[i].server = authority->Issue("server", {"/CN=s", "DNS:gemmd.test", "", ""});
    generations[i].client = authority->Issue("client", {"/CN=c", "", "", ""});
    generations[i].token = absl::StrCat("token", i);
    roots += FileBytes(authority->certificate_file());
    generations[i].authority = std::move(authority);
  }
  const auto authority_bytes = [&generations](int i) {
    return FileBytes(generations[i].authority->certificate_file());
  };
  const testing::TemporaryDirectory folder;
  const std::string certificate =
      folder.File("server.pem", FileBytes(generations[0].server.certificate));
  const std::string key = folder.File("server.key", FileBytes(generations[0].server.key));
  const std::string clients = folder.File("clients.pem", authority_bytes(0));
  const std::string policy = folder.File("policy", TokenEntry(generations[0].token));
  ServerProcess server({"--tls.certificate-file=" + certificate, "--tls.key-file=" + key,
                        "--tls.client-ca-file=" + clients, "--auth.policy-file=" + policy,
                        "--limits.connections-per-second=0"});
  const auto is_accepted = [&](int trusted, int shown, int token) {
    const TlsClient client{authority_bytes(trusted), generations[shown].client, "gemmd.test"};
    return CallWithToken(testing::TlsChannel(server.address(), client), generations[token].token)
        .ok();
  };

  std::atomic<int> current{0};
  {
    const Load old_connection(server.address(), roots, true, &generations, &current);
    const Load new_connections(server.address(), roots, false, &generations, &current);
    for (int i = 1; i <= kRotations; ++i) {
      // Both authorities and tokens, until all clients have changed to the new ones.
      ReplaceFile(policy, TokenEntry(generations[i - 1].token) + TokenEntry(generations[i].token));
      ReplaceFile(clients, authority_bytes(i - 1) + authority_bytes(i));
      ReplaceFile(certificate, FileBytes(generations[i].server.certificate));
      ReplaceFile(key, FileBytes(generations[i].server.key));
      const absl::Time end = absl::Now() + absl::Seconds(30);
      while (!is_accepted(i, i, i)) ASSERT_LT(absl::Now(), end) << "rotation " << i;
      current = i;
      while (new_connections.reached() < i || old_connection.reached() < i) {
        ASSERT_LT(absl::Now(), end) << "rotation " << i;
        std::this_thread::yield();
      }
      ReplaceFile(policy, TokenEntry(generations[i].token));
      server.Signal(SIGHUP);
      while (is_accepted(i, i, i - 1)) ASSERT_LT(absl::Now(), end) << "token " << i - 1;
    }
    EXPECT_GT(new_connections.calls(), kRotations);
    EXPECT_GT(old_connection.calls(), kRotations);
  }
  EXPECT_TRUE(is_accepted(kRotations, kRotations, kRotations));
  EXPECT_FALSE(is_accepted(kRotations, 0, kRotations)) << "the first authority is trusted still";
  EXPECT_FALSE(is_accepted(0, kRotations, kRotations)) << "the first certificate is shown still";
  EXPECT_FALSE(is_accepted(kRotations, kRotations, 0)) << "the first token is good still";
}

}  // namespace
}  // namespace gemmd
