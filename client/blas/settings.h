// The settings of the environment, read once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gemmd::blas {

enum class Mode { kNever, kAuto, kAlways };

struct Settings {
  Mode mode = Mode::kAuto;
  const char* server = nullptr;   // GEMMD_SERVER; null: everything is computed here
  const char* library = nullptr;  // GEMMD_LIBRARY: the path of libgemmd.so.0
  const char* kernel = nullptr;   // GEMMD_BLAS_KERNEL, for products of f32
  bool tls = false;               // GEMMD_BLAS_TLS
  // Paths of files, null where none is given.
  const char* tls_root_certs = nullptr;   // GEMMD_BLAS_TLS_ROOT_CERTS
  const char* tls_client_cert = nullptr;  // GEMMD_BLAS_TLS_CLIENT_CERT
  const char* tls_client_key = nullptr;   // GEMMD_BLAS_TLS_CLIENT_KEY
  const char* token_file = nullptr;       // GEMMD_BLAS_TOKEN_FILE
  std::int64_t limit_ms = 0;              // GEMMD_BLAS_LIMIT_MS; 0 is by the product's size
  bool report = false;                    // GEMMD_BLAS_REPORT
  const char* log = nullptr;              // GEMMD_BLAS_LOG: a file that can be written, or "-"
};

// Reads the environment. Values that are none are told of on standard error, and nothing is
// offloaded with them: a program must not end because of its environment.
Settings ReadSettings();

// Appends text to the file, or to standard error for "-". The file is opened each time: a program
// that closes all descriptors has others by their numbers afterwards.
void Append(const char* path, const char* text, std::size_t size);

// Writes "gemmd_blas: ..." and a newline to standard error, in one piece.
void Say(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace gemmd::blas
