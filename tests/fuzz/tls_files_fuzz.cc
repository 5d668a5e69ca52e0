// TLS's files are taken whole or not at all, whatever is in them. Lines of one "=" part the input
// into certificate, key, authorities and a list of revoked certificates.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "server/rpc/tls_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> parts = absl::StrSplit(text, "\n=\n");
  parts.resize(4);
  gemmd::TlsFiles files;
  files.certificate_file = "certificate";
  files.key_file = "key";
  gemmd::TlsBytes bytes;
  bytes.certificate = parts[0];
  bytes.key = parts[1];
  if (!parts[2].empty()) {
    files.client_ca_file = "authorities";
    files.crl_directory = "lists";
    bytes.client_ca = parts[2];
    bytes.revocations["01234567.r0"] = parts[3];
  }
  const absl::StatusOr<gemmd::TlsMaterial> material = gemmd::CheckTls(files, bytes, 1'800'000'000);
  if (!material.ok()) return 0;
  // The identity that is served is good when it is read again.
  bytes.certificate = bytes.key = material->identity;
  if (!gemmd::CheckTls(files, bytes, 1'800'000'000).ok()) std::abort();
  return 0;
}
