// A server on the CPU and a client of the C interface, for its tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/include/gemmd/gemmd.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd {

// "INVALID_ARGUMENT: a is NULL: it is needed [a, -1]", with field and limit; takes the error over.
// By reference, because the call that gives the code sets the error.
inline std::string Told(gemmd_code code, gemmd_error* const& error) {
  std::string text = gemmd_code_name(code);
  if (error != nullptr) {
    EXPECT_EQ(code, gemmd_error_code(error));
    text += std::string(": ") + gemmd_error_message(error) + " [" + gemmd_error_field(error) +
            ", " + std::to_string(gemmd_error_limit(error)) + "]";
  }
  gemmd_error_free(error);
  return text;
}

// A row-major f32 array over a vector's memory.
inline gemmd_array ArrayOf(std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  gemmd_array array = GEMMD_ARRAY_INIT;
  array.data = values.data();
  array.dtype = GEMMD_F32;
  array.rows = rows;
  array.columns = columns;
  return array;
}

inline gemmd_operand OperandOf(const gemmd_array& array) {
  gemmd_operand operand = GEMMD_OPERAND_INIT;
  operand.array = &array;
  return operand;
}

inline gemmd_operand OperandOf(const char* name) {
  gemmd_operand operand = GEMMD_OPERAND_INIT;
  operand.name = name;
  return operand;
}

inline gemmd_operand OperandOf(const gemmd_matrix* matrix) {
  gemmd_operand operand = GEMMD_OPERAND_INIT;
  operand.matrix = matrix;
  return operand;
}

inline gemmd_client* NewClient(const std::string& target, std::int64_t patience_ms = 0) {
  gemmd_client_options options = GEMMD_CLIENT_OPTIONS_INIT;
  options.target = target.c_str();
  options.retry_patience_ms = patience_ms;
  gemmd_client* client = nullptr;
  gemmd_error* error = nullptr;
  const gemmd_code code = gemmd_client_new(&options, &client, &error);
  EXPECT_EQ("OK", Told(code, error));
  return client;
}

class CTest : public ::testing::Test {
 protected:
  CTest() : client_(NewClient(server_.address())) {}
  ~CTest() override { EXPECT_EQ(GEMMD_OK, gemmd_client_free(client_, nullptr)); }

  std::vector<float> a_values_ = {1, 2, 3, 4, 5, 6};
  std::vector<float> b_values_ = {1, 0, 2, 0, 1, 3};
  gemmd_array a_ = ArrayOf(a_values_, 2, 3);
  gemmd_array b_ = ArrayOf(b_values_, 3, 2);
  testing::ServerProcess server_{{"--cpu.threads=2"}};
  gemmd_client* client_ = nullptr;
};

}  // namespace gemmd
