#include "tests/testing/products/quantized_work.h"

#include "base/numbers/quant/elements.h"

namespace gemmd::testing {

QuantizedProduct DrawQuantizedProduct(const QuantFormat& format, Draws* draws, std::uint32_t seed) {
  const std::int64_t m = 1 + draws->Below(draws->Below(8) == 0 ? 140 : 6);
  const std::int64_t n = 1 + draws->Below(draws->Below(8) == 0 ? 140 : 6);
  const std::int64_t k = 1 + draws->Below(draws->Below(8) == 0 ? 300 : 70);
  const QuantFormat partner = Partner(draws);
  const bool is_a = draws->Below(2) == 0;
  const QuantFormat& of_a = is_a ? format : partner;
  const QuantFormat& of_b = is_a ? partner : format;
  const bool are_integers = HasIntegerSums(of_a) && HasIntegerSums(of_b);
  DataType accumulate = are_integers ? DataType::kInt32 : DataType::kF32;
  if (draws->Below(3) == 0) accumulate = draws->Below(2) == 0 ? DataType::kF64 : DataType::kF32;
  constexpr DataType kOutputs[] = {DataType::kF32, DataType::kF16, DataType::kBf16};
  const DataType output = accumulate == DataType::kF64 && draws->Below(2) == 0
                              ? DataType::kF64
                              : kOutputs[draws->Below(3)];
  QuantizedProduct product = MakeQuantizedProduct(
      draws->Lines(of_a, m, k, true), draws->Lines(of_b, n, k, false), m, n, k, accumulate, output);
  Epilogue& e = product.problem.epilogue;
  if (draws->Below(3) == 0) e.alpha = draws->Normal();
  if (draws->Below(3) == 0) e.beta = draws->Normal();
  e.has_bias = draws->Below(3) == 0;
  product.c = RandomPlane(product.problem.c, Distribution::kNormal, seed);
  product.bias = RandomPlane({output, 1, n, Order::kRowMajor, n}, Distribution::kNormal, seed + 1);
  return product;
}

DeviceWork WorkOf(QuantizedProduct* product, const Plan& plan) {
  const Arguments arguments = product->arguments();
  DeviceWork work;
  work.problem = product->problem;
  work.plan = plan;
  HostBuffers& buffers = work.buffers;
  buffers[WorkPlane::kA] = arguments.a;
  buffers[WorkPlane::kB] = arguments.b;
  buffers[WorkPlane::kC] = arguments.c;
  buffers[WorkPlane::kBias] = arguments.bias;
  buffers[WorkPlane::kAScales] = arguments.a_scales;
  buffers[WorkPlane::kBScales] = arguments.b_scales;
  buffers[WorkPlane::kAZeroPoints] = arguments.a_zero_points;
  buffers[WorkPlane::kBZeroPoints] = arguments.b_zero_points;
  buffers[WorkPlane::kATensorScale] = arguments.a_tensor_scale;
  buffers[WorkPlane::kBTensorScale] = arguments.b_tensor_scale;
  buffers[WorkPlane::kAOffsets] = arguments.a_offsets;
  buffers[WorkPlane::kBOffsets] = arguments.b_offsets;
  buffers.d = {{product->d.data(), product->d.size(), nullptr}};
  return work;
}

}  // namespace gemmd::testing
