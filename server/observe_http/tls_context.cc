#include "server/observe_http/tls_context.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/buffer.hpp"

namespace gemmd {
namespace {

namespace ssl = boost::asio::ssl;

constexpr TimeNs kLookPeriod = 1'000'000'000;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_CRL* list) const { X509_CRL_free(list); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

absl::Status Refusal(const boost::system::error_code& error) {
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat("--observe.listen cannot speak TLS: ", error.message()));
}

// Revokes as OpenSSL does with a directory of lists: only a client's own certificate is looked for,
// and an authority without a list has revoked nothing.
absl::Status AddRevocations(const TlsBytes& bytes, ssl::context* context) {
  X509_STORE* const store = SSL_CTX_get_cert_store(context->native_handle());
  for (const auto& [name, pem] : bytes.revocations) {
    const Owned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    const Owned<X509_CRL> list(PEM_read_bio_X509_CRL(bio.get(), nullptr, nullptr, nullptr));
    if (list == nullptr || X509_STORE_add_crl(store, list.get()) != 1) {
      ERR_clear_error();
      return absl::InvalidArgumentError(
          absl::StrCat("--tls.crl-directory has ", name, ", which OpenSSL does not take"));
    }
  }
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  return absl::OkStatus();
}

// Asio's functions give the error that they set.
void Ignore(const boost::system::error_code& /*error*/) {}

// REQUIRES: CheckTls() was OK of them.
absl::StatusOr<TlsContext::Context> ContextOf(const TlsFiles& files, const TlsBytes& bytes,
                                              const TlsMaterial& material) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  // A session that a client resumes is not verified again.
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(native, 0);
  boost::system::error_code error;
  Ignore(context->use_certificate_chain(boost::asio::buffer(material.identity), error));
  if (!error) {
    Ignore(
        context->use_private_key(boost::asio::buffer(material.identity), ssl::context::pem, error));
  }
  if (!error && !material.client_authorities.empty()) {
    Ignore(context->add_certificate_authority(boost::asio::buffer(material.client_authorities),
                                              error));
  }
  if (error) return Refusal(error);
  if (files.client_certificates == ClientCertificates::kNone) return context;
  X509_STORE_set_flags(SSL_CTX_get_cert_store(native), X509_V_FLAG_PARTIAL_CHAIN);
  if (!files.crl_directory.empty()) {
    if (absl::Status s = AddRevocations(bytes, context.get()); !s.ok()) return s;
  }
  ssl::verify_mode mode = ssl::verify_peer;
  if (files.client_certificates == ClientCertificates::kRequired) {
    mode |= ssl::verify_fail_if_no_peer_cert;
  }
  Ignore(context->set_verify_mode(mode, error));
  if (error) return Refusal(error);
  Ignore(context->set_verify_callback(
      [](bool is_good, ssl::verify_context& verified) {
        return is_good ||
               X509_STORE_CTX_get_error(verified.native_handle()) == X509_V_ERR_UNABLE_TO_GET_CRL;
      },
      error));
  if (error) return Refusal(error);
  return context;
}

// Empty where a zero byte is in it.
std::string TextOf(const ASN1_STRING* string) {
  std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
                   static_cast<std::size_t>(ASN1_STRING_length(string)));
  return text.find('\0') == std::string::npos ? text : "";
}

std::string CommonNameOf(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (index < 0) return "";
  const ASN1_STRING* const raw = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index));
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, raw);
  if (size < 0) return "";
  const std::string text(reinterpret_cast<char*>(utf8), static_cast<std::size_t>(size));
  OPENSSL_free(utf8);
  return text.find('\0') == std::string::npos ? text : "";
}

std::string AddressText(const ASN1_STRING* bytes) {
  constexpr int kBytesOfV4 = 4;
  constexpr int kBytesOfV6 = 16;
  const int size = ASN1_STRING_length(bytes);
  if (size != kBytesOfV4 && size != kBytesOfV6) return "";
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(size == kBytesOfV4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(bytes), text,
            sizeof text);
  return text;
}

}  // namespace

absl::StatusOr<TlsContext> TlsContext::Make(const TlsFiles& files, const Clock* clock) {
  absl::StatusOr<TlsBytes> bytes = ReadTlsBytes(files);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<TlsMaterial> material = CheckTls(files, *bytes, std::time(nullptr));
  if (!material.ok()) return material.status();
  absl::StatusOr<Context> context = ContextOf(files, *bytes, *material);
  if (!context.ok()) return context.status();
  return TlsContext(files, clock, *std::move(bytes), *std::move(context));
}

TlsContext::TlsContext(TlsFiles files, const Clock* clock, TlsBytes bytes, Context context)
    : files_(std::move(files)),
      clock_(clock),
      bytes_(std::move(bytes)),
      context_(std::move(context)),
      next_look_(clock->Now() + kLookPeriod) {}

TlsContext::Context TlsContext::Current() {
  const TimeNs now = clock_->Now();
  if (now < next_look_) return context_;
  next_look_ = now + kLookPeriod;
  absl::StatusOr<TlsBytes> bytes = ReadTlsBytes(files_);
  if (!bytes.ok() || *bytes == bytes_) return context_;
  const absl::StatusOr<TlsMaterial> material = CheckTls(files_, *bytes, std::time(nullptr));
  if (!material.ok()) return context_;
  absl::StatusOr<Context> context = ContextOf(files_, *bytes, *material);
  if (!context.ok()) return context_;
  bytes_ = *std::move(bytes);
  context_ = *std::move(context);
  return context_;
}

CallerCredentials CertificateOf(SSL* connection) {
  CallerCredentials credentials;
  const Owned<X509> certificate(SSL_get1_peer_certificate(connection));
  if (certificate == nullptr) return credentials;
  credentials.has_certificate = true;
  credentials.common_name = CommonNameOf(certificate.get());
  const Owned<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  int uris = 0;
  std::string uri;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    std::string text;
    switch (name->type) {
      case GEN_URI:
        ++uris;
        text = uri = TextOf(name->d.uniformResourceIdentifier);
        break;
      case GEN_DNS:
        text = TextOf(name->d.dNSName);
        break;
      case GEN_EMAIL:
        text = TextOf(name->d.rfc822Name);
        break;
      case GEN_IPADD:
        text = AddressText(name->d.iPAddress);
        break;
      default:
        break;
    }
    if (!text.empty()) credentials.alternative_names.push_back(std::move(text));
  }
  // An identity document of SPIFFE has exactly one URI (X509-SVID, section 2).
  if (uris == 1 && absl::StartsWith(uri, "spiffe://")) credentials.spiffe_id = std::move(uri);
  return credentials;
}

}  // namespace gemmd
