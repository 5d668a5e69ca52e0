#include "server/rpc/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/generic/async_generic_service.h"
#include "tests/testing/tls_client.h"

namespace gemmd {
namespace {

using testing::CertificateAuthority;
using testing::CertificateFiles;
using testing::FileBytes;
using ::testing::HasSubstr;
using testing::ReplaceFile;

// Answers whatever comes with nothing.
class Nothing final : public grpc::CallbackGenericService {
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor() { StartWriteAndFinish(&empty_, grpc::WriteOptions(), grpc::Status::OK); }
    void OnDone() override { delete this; }

   private:
    grpc::ByteBuffer empty_{std::vector<grpc::Slice>(1).data(), 1};
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* /*context*/) override {
    return new Reactor;
  }
};

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    files_.certificate_file = folder_.File("server.pem", FileBytes(server_.certificate));
    files_.key_file = folder_.File("server.key", FileBytes(server_.key));
    files_.client_ca_file = folder_.File("clients.pem", FileBytes(authority_.certificate_file()));
    files_.crl_directory = authority_.WriteRevocations();
    files_.client_certificates = ClientCertificates::kRequired;
    auto tls = ServerTls::Start(files_, std::chrono::milliseconds(0));
    EXPECT_TRUE(tls.ok()) << tls.status();
    tls_ = *std::move(tls);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", tls_->credentials(), &port);
    builder.RegisterCallbackGenericService(&service_);
    grpc_server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  bool IsAccepted(const CertificateFiles& client) const {
    return testing::CheckHealth(address_, {roots_, client, "gemmd.test"}).ok();
  }

  // gRPC looks once a second.
  static bool Await(const std::function<bool()>& condition) {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (absl::Now() < end) {
      if (condition()) return true;
    }
    return false;
  }

  testing::TemporaryDirectory folder_;
  CertificateAuthority authority_{"authority"};
  CertificateFiles server_ = authority_.Issue("server", {"/CN=s", "DNS:gemmd.test", "", ""});
  CertificateFiles client_ = authority_.Issue("client", {"/CN=client", "", "", ""});
  const std::string roots_ = FileBytes(authority_.certificate_file());
  TlsFiles files_;
  Nothing service_;
  std::unique_ptr<ServerTls> tls_;
  std::unique_ptr<grpc::Server> grpc_server_;
  std::string address_;
};

TEST_F(CredentialsTest, ABadFileLeavesTheOldOnesAndIsSaidOnce) {
  const CertificateFiles next = authority_.Issue("next", {"/CN=n", "DNS:gemmd.test", "", ""});
  ::testing::internal::CaptureStderr();
  // The new certificate before its key.
  ReplaceFile(files_.certificate_file, FileBytes(next.certificate));
  EXPECT_THAT(tls_->Reload().message(), HasSubstr("which is not the key of"));
  EXPECT_FALSE(tls_->Reload().ok());
  EXPECT_TRUE(IsAccepted(client_));
  const std::string half = FileBytes(next.certificate).substr(0, 200);
  ReplaceFile(files_.certificate_file, half);
  EXPECT_FALSE(tls_->Reload().ok());
  EXPECT_FALSE(tls_->Reload().ok());
  const std::string log = ::testing::internal::GetCapturedStderr();
  std::size_t warnings = 0;
  for (std::size_t at = 0; (at = log.find("tls_not_reloaded", at)) != std::string::npos; ++at) {
    ++warnings;
  }
  EXPECT_EQ(warnings, 2U) << log;
  // Longer than gRPC's period: it never had anything else to read.
  const absl::Time end = absl::Now() + absl::Seconds(2);
  while (absl::Now() < end) ASSERT_TRUE(IsAccepted(client_));

  ReplaceFile(files_.certificate_file, FileBytes(next.certificate));
  ReplaceFile(files_.key_file, FileBytes(next.key));
  EXPECT_TRUE(tls_->Reload().ok());
  EXPECT_TRUE(IsAccepted(client_));
}

TEST_F(CredentialsTest, AnotherAuthorityIsTrustedFromAReloadOn) {
  const CertificateAuthority other("other");
  const CertificateFiles stranger = other.Issue("stranger", {"/CN=stranger", "", "", ""});
  EXPECT_FALSE(IsAccepted(stranger));
  ReplaceFile(files_.client_ca_file, FileBytes(other.certificate_file()));
  ASSERT_TRUE(tls_->Reload().ok());
  EXPECT_TRUE(Await([&] { return IsAccepted(stranger); }));
  EXPECT_FALSE(IsAccepted(client_));
}

TEST_F(CredentialsTest, WhatIsRevokedIsRefusedFromAReloadOn) {
  const CertificateFiles second = authority_.Issue("second", {"/CN=second", "", "", ""});
  EXPECT_TRUE(IsAccepted(second));
  authority_.Revoke(second);
  authority_.WriteRevocations();
  ASSERT_TRUE(tls_->Reload().ok());
  EXPECT_TRUE(Await([&] { return !IsAccepted(second); }));
  EXPECT_TRUE(IsAccepted(client_));
}

TEST_F(CredentialsTest, AReloadOfTheSameFilesChangesNothing) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(tls_->Reload().ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(MemoryFileTest, IsReplacedWholeAndSeenToBe) {
  absl::StatusOr<MemoryFile> file = MemoryFile::Make("one");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(FileBytes(file->path()), "one");
  struct stat before {};
  ASSERT_EQ(stat(file->path().c_str(), &before), 0);
  ASSERT_TRUE(file->Replace("other").ok());
  EXPECT_EQ(FileBytes(file->path()), "other");
  struct stat after {};
  ASSERT_EQ(stat(file->path().c_str(), &after), 0);
  EXPECT_NE(before.st_mtime, after.st_mtime);
  EXPECT_NE(before.st_mtime, 0);
}

}  // namespace
}  // namespace gemmd
