// The settings of the environment, read once.
#pragma once

#include <cstdint>

namespace gemmd::blas {

enum class Mode { kNever, kAuto, kAlways };

struct Settings {
  Mode mode = Mode::kAuto;
  const char* server = nullptr;   // GEMMD_SERVER; null: everything is computed here
  const char* library = nullptr;  // GEMMD_LIBRARY: the path of libgemmd.so.0
  const char* kernel = nullptr;   // GEMMD_BLAS_KERNEL, for products of f32
  std::int64_t limit_ms = 0;      // GEMMD_BLAS_LIMIT_MS; 0 is by the product's size
  bool report = false;            // GEMMD_BLAS_REPORT
  int log = -1;                   // a descriptor of GEMMD_BLAS_LOG
};

// Reads the environment. Values that are none are told of on standard error, and nothing is
// offloaded with them: a program must not end because of its environment.
Settings ReadSettings();

// Writes "gemmd_blas: ..." and a newline to standard error, in one piece.
void Say(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace gemmd::blas
