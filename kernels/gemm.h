// The kernels layer as the server sees it; the only header of kernels/ it includes.
//
//   Problem   what is asked                       problem.h
//   Config    how a kernel would do it            config.h
//   Kernel    a registry entry that can launch    kernel.h
//   Registry  the kernels of this build           registry.h
//   Plan      kernel + config for a problem       selection.h
//   PlanMemo  selection that remembers            plan_memo.h
//   ShippedPlans  measured before the build       shipped_plans.h
//   Session   where an emulated launch goes       emulator/session.h
//   VerificationResidual   whether a product is right   verify/freivalds.h
//   ErrorBound        what rounding may cost      verify/error_bound.h
//   QuantFormat   a format of quantized matrices  base/numbers/quant/quant_format.h
//   QuantizeInto  a real matrix to a quantized one  base/numbers/quant/quantize.h
//   IsDequantized     how quantized operands land   dequantize/dequantized_problem.h
//   LaunchTranspose   an operand on landing       landing/transpose.h
//   PackPlane         quantized B on landing      hopper/quant/packing.h
//   LaunchCopySpans   rows of a batch             landing/copy_spans.h
#pragma once

#include "base/numbers/quant/elements.h"             // IWYU pragma: export
#include "base/numbers/quant/packed_codes.h"         // IWYU pragma: export
#include "base/numbers/quant/quant_format.h"         // IWYU pragma: export
#include "base/numbers/quant/quantize.h"             // IWYU pragma: export
#include "base/numbers/types.h"                      // IWYU pragma: export
#include "kernels/config.h"                          // IWYU pragma: export
#include "kernels/cuda_traits.h"                     // IWYU pragma: export
#include "kernels/dequantize/dequantized_problem.h"  // IWYU pragma: export
#include "kernels/device_traits.h"                   // IWYU pragma: export
#include "kernels/emulator/session.h"                // IWYU pragma: export
#include "kernels/hopper/quant/packing.h"            // IWYU pragma: export
#include "kernels/kernel.h"                          // IWYU pragma: export
#include "kernels/landing/copy_spans.h"              // IWYU pragma: export
#include "kernels/landing/transpose.h"               // IWYU pragma: export
#include "kernels/padded_line.h"                     // IWYU pragma: export
#include "kernels/plan_cache.h"                      // IWYU pragma: export
#include "kernels/plan_memo.h"                       // IWYU pragma: export
#include "kernels/problem.h"                         // IWYU pragma: export
#include "kernels/registry.h"                        // IWYU pragma: export
#include "kernels/selection.h"                       // IWYU pragma: export
#include "kernels/shipped_plans.h"                   // IWYU pragma: export
#include "kernels/verify/error_bound.h"              // IWYU pragma: export
#include "kernels/verify/freivalds.h"                // IWYU pragma: export
