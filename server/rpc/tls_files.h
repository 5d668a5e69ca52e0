// The files that TLS is served with: reads them, and says what is wrong with them.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gemmd {

enum class ClientCertificates : std::uint8_t {
  kNone,      // not asked for
  kOptional,  // a client may show none, but not a bad one
  kRequired,
};

struct TlsFiles {
  std::string certificate_file;  // PEM, the server's own certificate first; empty: plaintext
  std::string key_file;          // PEM, not encrypted
  std::string client_ca_file;    // PEM; empty: none
  std::string crl_directory;     // as `openssl rehash` leaves it; empty: none
  ClientCertificates client_certificates = ClientCertificates::kNone;
};

// Their bytes. The lists of revoked certificates are keyed by the names of their files.
struct TlsBytes {
  std::string certificate;
  std::string key;
  std::string client_ca;
  std::map<std::string, std::string> revocations;

  friend bool operator==(const TlsBytes& x, const TlsBytes& y) {
    return x.certificate == y.certificate && x.key == y.key && x.client_ca == y.client_ca &&
           x.revocations == y.revocations;
  }
  friend bool operator!=(const TlsBytes& x, const TlsBytes& y) { return !(x == y); }
};

// The certificates and keys that TLS is served with: bytes that were checked, written anew.
struct TlsMaterial {
  std::string identity;            // PEM: the private key, then the chain
  std::string client_authorities;  // PEM; empty: none
  std::string subject;             // of the server's certificate, for the log
  std::vector<std::string> warnings;
};

// INVALID_ARGUMENT: a file cannot be read or is empty; the message names the option and the path.
absl::StatusOr<TlsBytes> ReadTlsBytes(const TlsFiles& files);

// INVALID_ARGUMENT: a file is not the PEM that it should be, has a broken block, or the key is
// encrypted or another certificate's; the message names the option, the path and what is wrong.
// Warnings: what has expired or is not valid yet at `now`, an authority without a list of revoked
// certificates, and files among the lists that nobody would look for.
absl::StatusOr<TlsMaterial> CheckTls(const TlsFiles& files, const TlsBytes& bytes, std::time_t now);

}  // namespace gemmd
