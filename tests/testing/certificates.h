// Certificates made by the openssl command, in a folder of the test's.
#pragma once

#include <string>

#include "tests/client/testing/temporary_directory.h"

namespace gemmd::testing {

// The paths of a certificate and its key, both PEM.
struct CertificateFiles {
  std::string certificate;
  std::string key;
};

// An authority with a key of its own. The process ends where openssl fails.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name);

  // The path of its own certificate, PEM.
  std::string certificate_file() const { return folder_.Path("ca.pem"); }

  struct Request {
    std::string subject = "/CN=client";
    std::string names;  // as openssl takes subjectAltName: "DNS:gemmd.test,URI:spiffe://a/b"
    // Written as 20991231235959Z; empty: valid for a day from now.
    std::string not_before;
    std::string not_after;
  };
  // A new key and its certificate, in files of this name.
  CertificateFiles Issue(const std::string& name, const Request& request) const;

  // The certificate is revoked from the next list on.
  void Revoke(const CertificateFiles& issued) const;

  // Writes the list of what was revoked, under the name that OpenSSL looks for, and gives its
  // folder.
  std::string WriteRevocations() const;

 private:
  void Run(const std::string& arguments) const;

  TemporaryDirectory folder_;
};

// Signed by nobody but itself.
CertificateFiles MakeSelfMade(const TemporaryDirectory& folder, const std::string& common_name);

// Puts `bytes` in the file's place at once, as rename() does.
void ReplaceFile(const std::string& path, const std::string& bytes);

}  // namespace gemmd::testing
