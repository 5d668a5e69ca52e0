// gemmd.h as a C++ compiler reads it: each struct has the size that C gives it.
#include <cstdio>

#include "client/include/gemmd/gemmd.h"

extern "C" size_t SumOfSizes(void);

int main() {
  gemmd_client_options client = GEMMD_CLIENT_OPTIONS_INIT;
  gemmd_array array = GEMMD_ARRAY_INIT;
  gemmd_operand operand = GEMMD_OPERAND_INIT;
  gemmd_matmul_options matmul = GEMMD_MATMUL_OPTIONS_INIT;
  gemmd_receipt receipt = GEMMD_RECEIPT_INIT;
  gemmd_tensor_info tensor = GEMMD_TENSOR_INFO_INIT;
  gemmd_plane plane = GEMMD_PLANE_INIT;
  gemmd_encoded_matmul encoded = GEMMD_ENCODED_MATMUL_INIT;
  gemmd_route route = GEMMD_ROUTE_INIT;
  gemmd_estimated estimated = GEMMD_ESTIMATED_INIT;
  const size_t sum = estimated.size + encoded.size + route.size + client.size + array.size +
                     operand.size + matmul.size + receipt.size + tensor.size + plane.size;
  if (sum == SumOfSizes()) return 0;
  std::printf("%zu bytes here, %zu in C\n", sum, SumOfSizes());
  return 1;
}
