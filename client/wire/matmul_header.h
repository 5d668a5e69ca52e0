// The options of a product, as the wire says them.
#pragma once

#include "client/matmul.h"
#include "gemmd/v1/gemm.pb.h"

namespace gemmd::client {

// Sets everything but the operands.
void SetHeader(const MatmulOptions& options, v1::MatmulHeader& header);

}  // namespace gemmd::client
