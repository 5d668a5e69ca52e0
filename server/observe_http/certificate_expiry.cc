#include "server/observe_http/certificate_expiry.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>

#include "base/process/read_file.h"

namespace gemmd {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};

}  // namespace

std::optional<double> CertificateExpiry(const std::string& path) {
  constexpr std::size_t kMostBytes = 1 << 20;
  const absl::StatusOr<std::string> bytes = ReadRegularFile(path, kMostBytes);
  if (!bytes.ok()) return std::nullopt;
  const std::unique_ptr<BIO, Free> file(
      BIO_new_mem_buf(bytes->data(), static_cast<int>(bytes->size())));
  const std::unique_ptr<X509, Free> certificate(
      file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  std::tm end{};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    return std::nullopt;
  }
  return static_cast<double>(timegm(&end));
}

}  // namespace gemmd
