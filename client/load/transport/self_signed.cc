#include "client/load/transport/self_signed.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <memory>

namespace gemmd::load {
namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

std::string Drain(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

void AddExtension(X509* certificate, int id, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str());
  Check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

}  // namespace

CertifiedKey MakeSelfSigned(const std::string& name) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  Check(key != nullptr && certificate != nullptr);
  constexpr long kOneDaySeconds = 86400;
  constexpr long kVersion3 = 2;
  X509_set_version(certificate.get(), kVersion3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kOneDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kOneDaySeconds);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  AddExtension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate.get(), NID_subject_alt_name, "DNS:" + name);
  Check(X509_sign(certificate.get(), key.get(), EVP_sha256()) != 0);

  CertifiedKey result;
  BIO* bio = BIO_new(BIO_s_mem());
  Check(PEM_write_bio_X509(bio, certificate.get()) == 1);
  result.certificate = Drain(bio);
  bio = BIO_new(BIO_s_mem());
  Check(PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  result.key = Drain(bio);
  return result;
}

}  // namespace gemmd::load
