#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/served_gpu.h"
#include "tests/testing/products/quantized_work.h"

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

// A product of f16 or bf16 by weights that are packed where they stay, if the format's are: of bf16
// alone by those that are exact in it.
std::optional<QuantizedProduct> DrawPacked(const QuantFormat& format, std::int64_t m,
                                           std::int64_t n, std::int64_t k, Draws* draws,
                                           bool a_is_k_major = false) {
  Draws::Limits limits;
  limits.is_tight = limits.is_on_the_wire = limits.is_untiled = true;
  Draws::Limits limits_of_a = limits;
  limits_of_a.is_k_major = a_is_k_major;
  const bool is_f16 = draws->Below(2) == 0 && format.element != DataType::kFp4E2M1;
  const DataType type = is_f16 ? DataType::kF16 : DataType::kBf16;
  constexpr DataType kOutputs[] = {DataType::kF32, DataType::kF16, DataType::kBf16};
  QuantizedProduct product =
      MakeQuantizedProduct(draws->Lines({type, Scaling::kNone}, m, k, true, limits_of_a),
                           draws->Lines(format, n, k, false, limits), m, n, k, DataType::kF32,
                           kOutputs[draws->Below(3)]);
  if (!PackingRejection(product.problem).empty()) return std::nullopt;
  product.problem.b_packing = Packing::kStrips;
  return product;
}

// Brings the planes of B to stay, and compares what comes back of them.
std::string StoreB(ServedGpu* gpu, DeviceWork* work) {
  for (const WorkPlane plane : kPlanesOfB) {
    const void* const data = std::exchange(work->buffers[plane], nullptr);
    if (data == nullptr) continue;
    work->resident[plane] = Require(gpu->device->Store(work->problem, plane, data), "a plane of B");
    const std::uint64_t bytes = gemmd::PlaneBytes(work->problem, plane);
    std::string fetched(bytes, '?');
    if (absl::Status s = gpu->device->Fetch(*work->resident[plane], fetched.data()); !s.ok()) {
      return s.ToString();
    }
    if (std::memcmp(fetched.data(), data, bytes) != 0) return "a plane of B came back otherwise";
  }
  return "";
}

std::string ComputePacked(ServedGpu* gpu, QuantizedProduct* product, DeviceWork* work) {
  const Problem landed = gpu->device->Landed(product->problem);
  work->problem = product->problem;
  work->plan = Require(Select(BuiltinRegistry(), landed, gpu->device->traits()), "plan");
  if (work->plan.kernel->traits().b_packing == Packing::kNone) return "another kernel was chosen";
  work->buffers.d = Require(gpu->device->AllocateResult(product->problem.d), "memory for D");
  Ends ends;
  gpu->device->Submit(*work, ends.Expect());
  ends.WaitFor(0);
  if (!ends.status().ok()) return ends.status().ToString();
  CopyOut(work->buffers.d, &product->d);
  return "";
}

// The first rows of a product have the bits that they have in one of any other number of rows.
std::string CheckRowsOfPacked(ServedGpu* gpu, const QuantFormat& format, int runs, Draws* draws) {
  constexpr std::int64_t kMost = 512;
  std::optional<QuantizedProduct> whole = DrawPacked(format, kMost, 640, 1024, draws, true);
  if (!whole.has_value()) return "is not packed";
  DeviceWork work = WorkOf(&*whole, {});
  if (std::string fault = StoreB(gpu, &work); !fault.empty()) return fault;
  if (std::string fault = ComputePacked(gpu, &*whole, &work); !fault.empty()) return fault;
  for (int i = 0; i < runs; ++i) {
    QuantizedProduct part = *whole;
    const std::int64_t rows = i < 128 ? 1 + i : 1 + draws->Below(kMost);
    part.problem.m = part.problem.d.rows = part.problem.c.rows = rows;
    (part.problem.transpose_a ? part.problem.a.columns : part.problem.a.rows) = rows;
    part.d.resize(part.problem.d.size_bytes());
    DeviceWork of_part = work;
    if (std::string fault = ComputePacked(gpu, &part, &of_part); !fault.empty()) return fault;
    if (std::memcmp(part.d.data(), whole->d.data(), part.problem.d.size_bytes()) != 0) {
      return absl::StrCat("rows have other bits among ", rows);
    }
  }
  return "";
}

void CheckPacked(ServedGpu* gpu, const NamedFormat& format, int products, GpuReport* report) {
  Draws draws(static_cast<std::uint32_t>(7 + 31 * format.name.size()));
  if (!DrawPacked(format.format, 1, 128, 128, &draws).has_value()) return;
  std::string fault;
  int count = 0;
  for (; count < products && fault.empty(); ++count) {
    const std::int64_t m = 1 + draws.Below(draws.Below(4) == 0 ? 150 : 20);
    std::optional<QuantizedProduct> product =
        DrawPacked(format.format, m, 64 + draws.Below(240), 64 * (1 + draws.Below(8)), &draws);
    DeviceWork work = WorkOf(&*product, {});
    fault = StoreB(gpu, &work);
    if (fault.empty()) fault = ComputePacked(gpu, &*product, &work);
    if (fault.empty()) fault = CheckQuantizedProduct(&*product, work.plan.kernel->traits().name);
  }
  report->Add(absl::StrCat(count, " products by packed ", format.name), fault);
  report->Add(absl::StrCat("rows of packed ", format.name),
              CheckRowsOfPacked(gpu, format.format, 600, &draws));
}

}  // namespace

void CheckQuantized(int products, const std::string& only, GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  if (!only.empty() && FindQuantFormat(only) == nullptr) report->Add(only, "is no format");
  for (const NamedFormat& format : QuantFormats()) {
    if (!only.empty() && format.name != only) continue;
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
    CheckPacked(&gpu, format, products, report);
  }
  if (only.empty()) CheckBlockScaled(&gpu, products, report);
}

}  // namespace gemmd::testing
