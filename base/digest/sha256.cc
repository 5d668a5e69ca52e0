#include "base/digest/sha256.h"

#include <openssl/evp.h>

#include <cstdlib>

namespace gemmd {
namespace {

EVP_MD_CTX* Context(void* context) { return static_cast<EVP_MD_CTX*>(context); }

// These calls fail only where there is no memory, or OpenSSL has no SHA-256.
void Check(int ok) {
  if (ok != 1) std::abort();
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Check(context_ != nullptr);
  Check(EVP_DigestInit_ex(Context(context_), EVP_sha256(), nullptr));
}

Sha256::~Sha256() { EVP_MD_CTX_free(Context(context_)); }

void Sha256::Update(absl::string_view bytes) {
  Check(EVP_DigestUpdate(Context(context_), bytes.data(), bytes.size()));
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest{};
  Check(EVP_DigestFinal_ex(Context(context_), digest.data(), nullptr));
  return digest;
}

Sha256Digest Sha256Of(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

std::string ToBytes(const Sha256Digest& digest) {
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace gemmd
