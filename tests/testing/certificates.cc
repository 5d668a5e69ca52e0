#include "tests/testing/certificates.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/client/testing/subprocess.h"

namespace gemmd::testing {
namespace {

constexpr char kConfiguration[] = R"(
[ca]
default_ca = authority
[authority]
database = FOLDER/index
serial = FOLDER/serial
crlnumber = FOLDER/crlnumber
new_certs_dir = FOLDER
certificate = FOLDER/ca.pem
private_key = FOLDER/ca.key
default_md = sha256
default_days = 1
default_crl_days = 1
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = optional
organizationName = optional
[req]
distinguished_name = name
[name]
[authority_extensions]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
)";

constexpr char kNewKey[] = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

// Arguments have no spaces.
void OpenSsl(const std::string& arguments) {
  std::vector<std::string> words = absl::StrSplit(arguments, ' ', absl::SkipEmpty());
  words.insert(words.begin(), "openssl");
  const ProcessResult result = RunProcess(words);
  if (result.exit_code == 0) return;
  std::cerr << "openssl " << arguments << ": " << result.error << "\n";
  std::abort();
}

}  // namespace

CertificateAuthority::CertificateAuthority(const std::string& name) {
  std::string configuration = kConfiguration;
  const std::string marker = "FOLDER";
  for (std::size_t at = 0; (at = configuration.find(marker, at)) != std::string::npos;) {
    configuration.replace(at, marker.size(), folder_.Path("."));
  }
  folder_.File("configuration", configuration);
  folder_.File("index", "");
  folder_.File("serial", "1000\n");
  folder_.File("crlnumber", "1000\n");
  Run(absl::StrCat("req -x509 ", kNewKey, " -days 2 -extensions authority_extensions -subj /CN=",
                   name, " -keyout ", folder_.Path("ca.key"), " -out ", certificate_file()));
}

CertificateFiles CertificateAuthority::Issue(const std::string& name,
                                             const Request& request) const {
  const CertificateFiles files{folder_.Path(name + ".pem"), folder_.Path(name + ".key")};
  const std::string signing_request = folder_.Path(name + ".csr");
  Run(absl::StrCat("req -new ", kNewKey, " -subj ", request.subject, " -keyout ", files.key,
                   " -out ", signing_request,
                   request.names.empty() ? "" : " -addext subjectAltName=", request.names));
  Run(absl::StrCat("ca -batch -notext -in ", signing_request, " -out ", files.certificate,
                   request.not_before.empty() ? "" : " -startdate ", request.not_before,
                   request.not_after.empty() ? "" : " -enddate ", request.not_after));
  return files;
}

void CertificateAuthority::Revoke(const CertificateFiles& issued) const {
  Run(absl::StrCat("ca -revoke ", issued.certificate));
}

std::string CertificateAuthority::WriteRevocations() const {
  const std::string folder = folder_.Path("crl");
  static_cast<void>(RunProcess({"mkdir", "-p", folder}));
  Run(absl::StrCat("ca -gencrl -out ", folder, "/list.pem"));
  OpenSsl(absl::StrCat("rehash ", folder));
  return folder;
}

void CertificateAuthority::Run(const std::string& arguments) const {
  const std::size_t command = arguments.find(' ');
  OpenSsl(absl::StrCat(arguments.substr(0, command), " -config ", folder_.Path("configuration"),
                       arguments.substr(command)));
}

CertificateFiles MakeSelfMade(const TemporaryDirectory& folder, const std::string& common_name) {
  const CertificateFiles files{folder.Path("self.pem"), folder.Path("self.key")};
  OpenSsl(absl::StrCat("req -x509 ", kNewKey, " -days 1 -subj /CN=", common_name, " -keyout ",
                       files.key, " -out ", files.certificate));
  return files;
}

void ReplaceFile(const std::string& path, const std::string& bytes) {
  const std::string beside = path + ".new";
  std::ofstream(beside, std::ios::binary) << bytes;
  if (std::rename(beside.c_str(), path.c_str()) != 0) std::abort();
}

}  // namespace gemmd::testing
