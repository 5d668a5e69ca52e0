#include "server/rpc/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "tests/client/testing/subprocess.h"
#include "tests/testing/certificates.h"

namespace gemmd {
namespace {

using testing::CertificateFiles;
using ::testing::ElementsAre;
using testing::FileBytes;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TlsFilesTest : public ::testing::Test {
 protected:
  // With all options, of which each test breaks one.
  TlsFiles Files() const {
    TlsFiles files;
    files.certificate_file = server_.certificate;
    files.key_file = server_.key;
    files.client_ca_file = authority_.certificate_file();
    files.crl_directory = crl_directory_;
    return files;
  }

  static absl::StatusOr<TlsMaterial> Check(const TlsFiles& files,
                                           std::time_t now = std::time(nullptr)) {
    const absl::StatusOr<TlsBytes> bytes = ReadTlsBytes(files);
    if (!bytes.ok()) return bytes.status();
    return CheckTls(files, *bytes, now);
  }

  static std::string Wrong(const TlsFiles& files) {
    const absl::StatusOr<TlsMaterial> material = Check(files);
    EXPECT_EQ(material.status().code(), absl::StatusCode::kInvalidArgument) << material.status();
    return std::string(material.status().message());
  }

  testing::CertificateAuthority authority_{"authority"};
  CertificateFiles server_ = authority_.Issue("server", {"/CN=gemmd.test", "", "", ""});
  CertificateFiles other_ = authority_.Issue("other", {"/CN=other", "", "", ""});
  std::string crl_directory_ = authority_.WriteRevocations();
  testing::TemporaryDirectory folder_;
};

TEST_F(TlsFilesTest, WhatFitsIsWrittenAnew) {
  const absl::StatusOr<TlsMaterial> material = Check(Files());
  ASSERT_TRUE(material.ok()) << material.status();
  EXPECT_EQ(material->subject, "CN=gemmd.test");
  EXPECT_THAT(material->warnings, IsEmpty());
  EXPECT_EQ(material->identity, FileBytes(server_.key) + FileBytes(server_.certificate));
  EXPECT_EQ(material->client_authorities, FileBytes(authority_.certificate_file()));
}

TEST_F(TlsFilesTest, EachOptionIsNamedWithWhatIsWrong) {
  TlsFiles files = Files();
  files.certificate_file = "/none.pem";
  EXPECT_EQ(Wrong(files),
            "--tls.certificate-file is \"/none.pem\", which cannot be read: No such file or "
            "directory");
  files = Files();
  files.client_ca_file = folder_.File("empty", "");
  EXPECT_EQ(Wrong(files),
            absl::StrCat("--tls.client-ca-file is \"", files.client_ca_file, "\", which is empty"));
  files.client_ca_file = folder_.Path(".");
  EXPECT_THAT(Wrong(files), HasSubstr("which cannot be read: it is no regular file"));
  files = Files();
  files.certificate_file = server_.key;
  EXPECT_EQ(Wrong(files), absl::StrCat("--tls.certificate-file is \"", server_.key,
                                       "\", which has no PEM certificate"));
  files = Files();
  files.key_file = server_.certificate;
  EXPECT_EQ(Wrong(files), absl::StrCat("--tls.key-file is \"", server_.certificate,
                                       "\", which has no PEM private key, or a broken one"));
  files.key_file = other_.key;
  EXPECT_EQ(Wrong(files), absl::StrCat("--tls.key-file is \"", other_.key,
                                       "\", which is not the key of the first certificate in "
                                       "--tls.certificate-file, \"",
                                       server_.certificate, "\""));
  files = Files();
  files.crl_directory = "/none";
  EXPECT_EQ(Wrong(files),
            "--tls.crl-directory is \"/none\", which is no directory to be read: No such file or "
            "directory");
}

TEST_F(TlsFilesTest, AnEncryptedKeyIsRefusedAndNobodyAsked) {
  const std::string encrypted = folder_.Path("encrypted.key");
  ASSERT_EQ(testing::RunProcess({"openssl", "pkcs8", "-topk8", "-in", server_.key, "-out",
                                 encrypted, "-passout", "pass:secret"})
                .exit_code,
            0);
  TlsFiles files = Files();
  files.key_file = encrypted;
  EXPECT_THAT(Wrong(files), HasSubstr("which is encrypted"));
}

// gRPC takes what is whole of it, and would forget an authority.
TEST_F(TlsFilesTest, ABundleThatIsCutShortIsNotTakenInPart) {
  const std::string whole = FileBytes(authority_.certificate_file());
  TlsFiles files = Files();
  files.client_ca_file = folder_.File("bundle", whole + whole);
  EXPECT_TRUE(Check(files).ok());
  for (const std::size_t cut : {whole.size() / 2, whole.size() - 10}) {
    files.client_ca_file = folder_.File("bundle", whole + whole.substr(0, cut));
    EXPECT_THAT(Wrong(files), HasSubstr("whose certificate number 2 is broken or cut short"));
  }
}

TEST_F(TlsFilesTest, WhatIsOutOfItsTimeIsAWarning) {
  constexpr std::time_t kDay = 86400;
  TlsFiles files = Files();
  files.client_ca_file.clear();
  const absl::StatusOr<TlsMaterial> later = Check(files, std::time(nullptr) + 2 * kDay);
  ASSERT_TRUE(later.ok());
  EXPECT_THAT(later->warnings, ElementsAre(HasSubstr("\"CN=gemmd.test\"")));
  EXPECT_THAT(later->warnings, ElementsAre(HasSubstr("has expired at 20")));
  const absl::StatusOr<TlsMaterial> earlier = Check(files, std::time(nullptr) - kDay);
  ASSERT_TRUE(earlier.ok());
  EXPECT_THAT(earlier->warnings, ElementsAre(HasSubstr("is not valid before 20")));
}

TEST_F(TlsFilesTest, ListsOfRevokedCertificatesMustBeFoundAndCurrent) {
  constexpr std::time_t kDay = 86400;
  const absl::StatusOr<TlsMaterial> later = Check(Files(), std::time(nullptr) + kDay + kDay / 2);
  ASSERT_TRUE(later.ok());
  EXPECT_THAT(later->warnings,
              ElementsAre(HasSubstr("CN=gemmd.test"), HasSubstr("the list of \"CN=authority\"")));

  TlsFiles files = Files();
  const testing::CertificateAuthority stranger("stranger");
  files.client_ca_file = folder_.File(
      "both", FileBytes(authority_.certificate_file()) + FileBytes(stranger.certificate_file()));
  const absl::StatusOr<TlsMaterial> without = Check(files);
  ASSERT_TRUE(without.ok());
  EXPECT_THAT(without->warnings, ElementsAre(HasSubstr("has no list of \"CN=stranger\"")));

  const std::string list = FileBytes(crl_directory_ + "/list.pem");
  files = Files();
  files.crl_directory = folder_.Path(".");
  folder_.File("01234567.r0", list);
  EXPECT_THAT(Wrong(files), HasSubstr("whose 01234567.r0 is \"CN=authority\"'s and would not be"));
  folder_.File("01234567.r0", "-----BEGIN X509 CRL-----\n");
  EXPECT_THAT(Wrong(files), HasSubstr("whose 01234567.r0 is no PEM list"));
  // Nobody looks for it.
  ASSERT_EQ(std::remove(folder_.Path("01234567.r0").c_str()), 0);
  folder_.File("list.pem", list);
  const absl::StatusOr<TlsMaterial> unnamed = Check(files);
  ASSERT_TRUE(unnamed.ok());
  EXPECT_THAT(unnamed->warnings, ElementsAre(HasSubstr("openssl rehash")));
}

}  // namespace
}  // namespace gemmd
