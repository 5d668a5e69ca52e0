// gemmd.h as a C compiler reads it.
#include "client/include/gemmd/gemmd.h"

#if defined(__cplusplus) || __STDC_VERSION__ < 201112L
#error "this file is to be compiled as C11 or later"
#endif

// Uses each initialiser, so that one that lacks a field is a warning.
size_t SumOfSizes(void) {
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
  return estimated.size + encoded.size + route.size + client.size + array.size + operand.size +
         matmul.size + receipt.size + tensor.size + plane.size;
}
