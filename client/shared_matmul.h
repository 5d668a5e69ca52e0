// Products whose operands and result lie in memory shared with the server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/codec.h"
#include "client/matmul.h"
#include "client/matrix.h"
#include "client/shared_region.h"

namespace gemmd::client {

// The bytes of a region from there on.
struct SharedPlace {
  std::shared_ptr<const SharedRegion> region;
  std::uint64_t offset_bytes = 0;  // any alignment
};

struct SharedOperand {
  SharedPlace place;
  MatrixFormat data;
  // Of f32, as MatmulInputs has them: right behind the last element of the data.
  std::optional<MatrixFormat> scales = std::nullopt;
};

struct SharedInputs {
  SharedOperand a;
  SharedOperand b;
  std::optional<SharedOperand> c = std::nullopt;
  std::optional<SharedOperand> bias = std::nullopt;
  // Where D goes. It may be exactly C, in C's layout, but no other operand.
  SharedPlace d;
};

// For Client::MatmulAsync(), any number of times. The operands are read while a product is under
// way, not here. The product's D is not a copy: it is the region's own bytes, keeps the region,
// and changes with them. What does not fit its region the server refuses.
std::shared_ptr<const EncodedMatmul> Encode(const SharedInputs& inputs,
                                            const MatmulOptions& options);

}  // namespace gemmd::client
