// Requests of the Open Inference Protocol are refused, or become the product that they describe.
// The first byte chooses the model, the second where the bytes are cut.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/server/rpc/infer_request_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  bool is_taken = false;
  const std::string wrong = gemmd::testing::WhatIsWrong(
      data[0] % gemmd::testing::kInferCheckModels,
      {reinterpret_cast<const char*>(data) + 2, size - 2}, data[1], &is_taken);
  if (wrong.empty()) return 0;
  std::fputs(wrong.c_str(), stderr);
  std::abort();
}
