#include "server/rpc/tls_files.h"

#include <dirent.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/process/read_file.h"
#include "base/text/quoted.h"

namespace gemmd {
namespace {

constexpr char kCertificateOption[] = "--tls.certificate-file";
constexpr char kKeyOption[] = "--tls.key-file";
constexpr char kClientCaOption[] = "--tls.client-ca-file";
constexpr char kCrlOption[] = "--tls.crl-directory";

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_CRL* list) const { X509_CRL_free(list); }
  void operator()(DIR* directory) const { closedir(directory); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;
using Certificates = std::vector<Owned<X509>>;

// An option and its value.
struct Source {
  const char* option;
  const std::string& path;
};

// The path is not truncated: it is from the operator's configuration.
std::string Path(const Source& source) { return absl::StrCat("\"", source.path, "\""); }

absl::Status Wrong(const Source& source, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source.option, " is ", Path(source), ", ", what));
}

absl::StatusOr<std::string> ReadFile(const Source& source, const std::string& path) {
  // The lists of a large authority have some.
  constexpr std::size_t kMostBytes = 64 << 20;
  absl::StatusOr<std::string> bytes = ReadRegularFile(path, kMostBytes);
  if (!bytes.ok()) return Wrong(source, absl::StrCat("which ", bytes.status().message()));
  if (bytes->empty()) return Wrong(source, "which is empty");
  return bytes;
}

Owned<BIO> Reader(const std::string& bytes) {
  return Owned<BIO>(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

std::string Written(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

// Returns whether the last read found no further block, and not a broken one: OpenSSL reports
// either as an error, and gRPC takes both for the end.
bool IsAtEnd() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

absl::StatusOr<Certificates> ParseCertificates(const Source& source, const std::string& bytes) {
  const Owned<BIO> bio = Reader(bytes);
  Certificates certificates;
  ERR_clear_error();
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
  }
  if (!IsAtEnd()) {
    return Wrong(source, absl::StrCat("whose certificate number ", certificates.size() + 1,
                                      " is broken or cut short"));
  }
  if (certificates.empty()) return Wrong(source, "which has no PEM certificate");
  return certificates;
}

// Instead of OpenSSL's own, which asks at the terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return 0;
}

absl::StatusOr<Owned<EVP_PKEY>> ParseKey(const Source& source, const std::string& bytes) {
  bool is_encrypted = false;
  Owned<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Reader(bytes).get(), nullptr, NoPassphrase, &is_encrypted));
  ERR_clear_error();
  if (key != nullptr) return key;
  return Wrong(source, is_encrypted ? "which is encrypted: gemmd has nobody to ask for a passphrase"
                                    : "which has no PEM private key, or a broken one");
}

std::string Text(const X509_NAME* name) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);
  return Written(bio.get());
}

// Returns the hash by which OpenSSL names the files of an issuer's lists.
std::string HashOf(const X509_NAME* name) {
  return absl::StrFormat("%08x", X509_NAME_hash_ex(name, nullptr, nullptr, nullptr));
}

std::string OneLine(const X509_NAME* name) { return Quoted(Text(name)); }

std::string Text(const ASN1_TIME* time) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print_ex(bio.get(), time, ASN1_DTFLGS_ISO8601);
  return Written(bio.get());
}

void WarnOfTimes(const Source& source, const X509* certificate, std::time_t now,
                 std::vector<std::string>& warnings) {
  const std::string head =
      absl::StrCat(source.option, ": the certificate of ",
                   OneLine(X509_get_subject_name(certificate)), " in ", Path(source));
  if (X509_cmp_time(X509_get0_notBefore(certificate), &now) > 0) {
    warnings.push_back(
        absl::StrCat(head, " is not valid before ", Text(X509_get0_notBefore(certificate))));
  }
  if (X509_cmp_time(X509_get0_notAfter(certificate), &now) < 0) {
    warnings.push_back(
        absl::StrCat(head, " has expired at ", Text(X509_get0_notAfter(certificate))));
  }
}

std::string PemOf(const EVP_PKEY* key, const Certificates& certificates) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  if (key != nullptr) {
    PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  }
  for (const Owned<X509>& each : certificates) PEM_write_bio_X509(bio.get(), each.get());
  return Written(bio.get());
}

// OpenSSL looks for the lists of an issuer as HASH.r0, HASH.r1 and so on.
bool IsLookedFor(absl::string_view name) {
  constexpr std::size_t kHashDigits = 8;
  if (name.size() < kHashDigits + 3 || name.substr(kHashDigits, 2) != ".r") return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_good =
        i < kHashDigits
            ? absl::ascii_isxdigit(static_cast<unsigned char>(name[i]))
            : i < kHashDigits + 2 || absl::ascii_isdigit(static_cast<unsigned char>(name[i]));
    if (!is_good) return false;
  }
  return true;
}

absl::StatusOr<std::map<std::string, std::string>> ReadRevocations(const Source& source) {
  const Owned<DIR> directory(opendir(source.path.c_str()));
  if (directory == nullptr) {
    return Wrong(source, absl::StrCat("which is no directory to be read: ", std::strerror(errno)));
  }
  std::map<std::string, std::string> lists;
  while (const dirent* entry = readdir(directory.get())) {
    if (!IsLookedFor(entry->d_name)) continue;
    absl::StatusOr<std::string> bytes =
        ReadFile(source, absl::StrCat(source.path, "/", entry->d_name));
    if (!bytes.ok()) {
      return Wrong(source, absl::StrCat("whose ", entry->d_name, " cannot be read or is empty"));
    }
    lists.emplace(entry->d_name, *std::move(bytes));
  }
  return lists;
}

// Checks each list; `issuers` are the hashes of those that have one.
absl::Status CheckRevocations(const Source& source, const std::map<std::string, std::string>& lists,
                              std::time_t now, std::set<std::string>& issuers,
                              std::vector<std::string>& warnings) {
  for (const auto& [name, bytes] : lists) {
    const Owned<X509_CRL> list(
        PEM_read_bio_X509_CRL(Reader(bytes).get(), nullptr, nullptr, nullptr));
    ERR_clear_error();
    if (list == nullptr) {
      return Wrong(source, absl::StrCat("whose ", name, " is no PEM list of revoked certificates"));
    }
    const X509_NAME* issuer = X509_CRL_get_issuer(list.get());
    const std::string hash = HashOf(issuer);
    if (name.substr(0, hash.size()) != hash) {
      return Wrong(source,
                   absl::StrCat("whose ", name, " is ", OneLine(issuer),
                                "'s and would not be found; run: openssl rehash DIRECTORY"));
    }
    issuers.insert(hash);
    const ASN1_TIME* next = X509_CRL_get0_nextUpdate(list.get());
    if (next != nullptr && X509_cmp_time(next, &now) < 0) {
      warnings.push_back(absl::StrCat(source.option, ": the list of ", OneLine(issuer), " in ",
                                      Path(source), " has expired at ", Text(next),
                                      ": no certificate of its issuer is accepted"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsBytes> ReadTlsBytes(const TlsFiles& files) {
  TlsBytes bytes;
  const std::pair<Source, std::string*> wanted[] = {
      {{kCertificateOption, files.certificate_file}, &bytes.certificate},
      {{kKeyOption, files.key_file}, &bytes.key},
      {{kClientCaOption, files.client_ca_file}, &bytes.client_ca}};
  for (const auto& [source, target] : wanted) {
    if (source.option == kClientCaOption && source.path.empty()) continue;
    absl::StatusOr<std::string> read = ReadFile(source, source.path);
    if (!read.ok()) return read.status();
    *target = *std::move(read);
  }
  if (!files.crl_directory.empty()) {
    auto lists = ReadRevocations({kCrlOption, files.crl_directory});
    if (!lists.ok()) return lists.status();
    bytes.revocations = *std::move(lists);
  }
  return bytes;
}

absl::StatusOr<TlsMaterial> CheckTls(const TlsFiles& files, const TlsBytes& bytes,
                                     std::time_t now) {
  TlsMaterial material;
  const Source certificate{kCertificateOption, files.certificate_file};
  const absl::StatusOr<Certificates> chain = ParseCertificates(certificate, bytes.certificate);
  if (!chain.ok()) return chain.status();
  const Source key_source{kKeyOption, files.key_file};
  const absl::StatusOr<Owned<EVP_PKEY>> key = ParseKey(key_source, bytes.key);
  if (!key.ok()) return key.status();
  if (X509_check_private_key(chain->front().get(), key->get()) != 1) {
    ERR_clear_error();
    return Wrong(key_source, absl::StrCat("which is not the key of the first certificate in ",
                                          certificate.option, ", ", Path(certificate)));
  }
  material.subject = Text(X509_get_subject_name(chain->front().get()));
  material.identity = PemOf(key->get(), *chain);
  for (const Owned<X509>& each : *chain) {
    WarnOfTimes(certificate, each.get(), now, material.warnings);
  }
  if (files.client_ca_file.empty()) return material;

  const Source client_ca{kClientCaOption, files.client_ca_file};
  const absl::StatusOr<Certificates> authorities = ParseCertificates(client_ca, bytes.client_ca);
  if (!authorities.ok()) return authorities.status();
  material.client_authorities = PemOf(nullptr, *authorities);
  for (const Owned<X509>& each : *authorities) {
    WarnOfTimes(client_ca, each.get(), now, material.warnings);
  }
  if (files.crl_directory.empty()) return material;

  const Source crl{kCrlOption, files.crl_directory};
  std::set<std::string> issuers;
  if (absl::Status status =
          CheckRevocations(crl, bytes.revocations, now, issuers, material.warnings);
      !status.ok()) {
    return status;
  }
  for (const Owned<X509>& each : *authorities) {
    const X509_NAME* name = X509_get_subject_name(each.get());
    if (issuers.count(HashOf(name)) != 0) continue;
    material.warnings.push_back(absl::StrCat(
        kCrlOption, ": ", Path(crl), " has no list of ", OneLine(name),
        ", whose certificates count as not revoked (names are HASH.r0: openssl rehash)"));
  }
  return material;
}

}  // namespace gemmd
