#include <string>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/served_gpu.h"
#include "tests/testing/quantized_work.h"

namespace gemmd::testing {
namespace {

std::string Compute(ServedGpu* gpu, QuantizedProduct* product, const std::string& kernel = "") {
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), gpu->device->Landed(product->problem),
                                           gpu->device->traits(), kernel);
  if (!plan.ok()) return plan.status().ToString();
  DeviceWork work = WorkOf(product, *plan);
  work.buffers.d = Require(gpu->device->AllocateResult(product->problem.d), "memory for D");
  Ends ends;
  gpu->device->Submit(work, ends.Expect());
  ends.WaitFor(0);
  if (!ends.status().ok()) return ends.status().ToString();
  CopyOut(work.buffers.d, &product->d);
  return CheckQuantizedProduct(product, plan->kernel->traits().name);
}

void CheckBlockScaled(ServedGpu* gpu, int products, GpuReport* report) {
  const std::string name = "cublaslt/fp8_blocks";
  const Kernel* const kernel = BuiltinRegistry().Find(name);
  Draws draws(9);
  std::string fault;
  int count = 0;
  int decoded = 0;
  while (count < products && decoded < 10 * products && fault.empty()) {
    QuantizedProduct product =
        DrawBlockScaledProduct(&draws, static_cast<std::uint32_t>(count + decoded));
    product.problem.determinism = Determinism::kFast;
    const Problem landed = gpu->device->Landed(product.problem);
    const bool is_taken = kernel->Rejection(landed).empty() &&
                          kernel->DeviceRejection(landed, gpu->device->traits()).empty();
    ++(is_taken ? count : decoded);
    if (is_taken) fault = Compute(gpu, &product, name);
  }
  if (fault.empty() && count < products) fault = "the library has no algorithm for them";
  report->Add(absl::StrCat(count, " products of fp8 with blocks of 128 by the library"), fault);
  report->Note("of such products decoded instead", absl::StrCat(decoded));
}

}  // namespace

void CheckQuantized(int products, GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  for (const NamedFormat& format : QuantFormats()) {
    Draws draws(static_cast<std::uint32_t>(5 + 31 * format.name.size()));
    std::string fault;
    int count = 0;
    while (count < products && fault.empty()) {
      QuantizedProduct product =
          DrawQuantizedProduct(format.format, &draws, static_cast<std::uint32_t>(count));
      // The bounds are those of decoded operands.
      if (!IsDequantized(product.problem)) continue;
      fault = Compute(&gpu, &product);
      ++count;
    }
    report->Add(absl::StrCat(count, " products of ", format.name), fault);
  }
  CheckBlockScaled(&gpu, products, report);
}

}  // namespace gemmd::testing
