#include "tests/server/admission/operand_play.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/admission/inline_payload.h"
#include "server/admission/validation.h"

namespace gemmd::testing {
namespace {

// Each choice is one byte; 0 where none is left.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  std::uint32_t Next() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::uint32_t Below(std::uint32_t limit) { return Next() % limit; }
  // Nearly always the value, else another one.
  std::uint64_t Around(std::uint64_t value) {
    const std::uint32_t choice = Next();
    if (choice < 240) return value;
    return choice < 250 ? value + choice - 245 : std::uint64_t{choice} << (choice % 56);
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

PlaneSpec DrawPlane(Choices& choices, DataType type, std::uint64_t rows, std::uint64_t columns) {
  PlaneSpec plane{type, choices.Around(rows), choices.Around(columns), Order::kRowMajor, 0};
  if (choices.Below(4) == 1) plane.order = Order::kColumnMajor;
  if (choices.Below(16) == 1) plane.leading_dimension = columns + choices.Below(5);
  return plane;
}

// Draws an operand of a format, or nearly so.
OperandSpec DrawOperand(Choices& choices, std::uint64_t rows, std::uint64_t columns,
                        bool k_is_columns, bool is_a) {
  OperandSpec operand;
  const auto formats = QuantFormats();
  const std::uint32_t choice = choices.Below(64);
  if (choice >= formats.size()) {
    operand.data = DrawPlane(choices, static_cast<DataType>(choices.Below(17)), rows, columns);
    return operand;
  }
  const QuantFormat& format = formats[choice].format;
  Scaling scaling = format.scaling;
  operand.data = DrawPlane(choices, format.element, rows, columns);
  const std::uint64_t lines = k_is_columns ? rows : columns;
  const std::uint64_t k = k_is_columns ? columns : rows;
  auto line_blocks =
      static_cast<std::uint64_t>(scaling.line_blocks(static_cast<std::int64_t>(lines)));
  auto k_blocks = static_cast<std::uint64_t>(scaling.k_blocks(static_cast<std::int64_t>(k)));
  bool lines_are_rows = is_a;
  if (scaling.block_k != kWhole) {
    lines_are_rows = k_is_columns;
    operand.blocks = BlockScaling{static_cast<std::uint32_t>(choices.Around(scaling.block_k)),
                                  static_cast<std::uint32_t>(choices.Around(scaling.block_lines)),
                                  choices.Below(3) == 1};
    if (operand.blocks->is_tiled) {
      line_blocks = (line_blocks + 127) / 128 * 128;
      k_blocks = (k_blocks + 3) / 4 * 4;
    }
  }
  if (!lines_are_rows) std::swap(line_blocks, k_blocks);
  operand.scales = DrawPlane(choices, scaling.type, line_blocks, k_blocks);
  if (scaling.has_zero_points) {
    operand.zero_points =
        PlaneSpec{RangeOf(format.element).lowest < 0 ? DataType::kInt8 : DataType::kUint8,
                  choices.Around(line_blocks), k_blocks, operand.scales->order, 0};
  }
  if (scaling.has_tensor_scale) operand.tensor_scale = DrawPlane(choices, DataType::kF32, 1, 1);
  return operand;
}

class OneThread final : public ParallelExecutor {
 public:
  void Run(std::int64_t count, absl::FunctionRef<void(int, std::int64_t)> body) override {
    for (std::int64_t i = 0; i < count; ++i) body(0, i);
  }
  int workers() const override { return 1; }
};

// Memory of exactly so many bytes, so that a sanitizer sees what lies beyond.
std::shared_ptr<void> Exactly(std::uint64_t bytes) { return {std::malloc(bytes), std::free}; }

absl::Status Multiply(const Problem& problem, const HostBuffers& buffers) {
  DeviceTraits traits;
  traits.name = "cpu";
  traits.compute_units = 1;
  traits.f32_gflops = 10;
  traits.memory_gbps = 10;
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, traits);
  if (!plan.ok()) return plan.status();
  const std::shared_ptr<void> d = Exactly(problem.d.size_bytes());
  const std::unique_ptr<void, void (*)(void*)> workspace(
      std::aligned_alloc(256, (plan->workspace_bytes + 256) / 256 * 256), std::free);
  Arguments arguments = ArgumentsOf(buffers);
  arguments.d = d.get();
  arguments.workspace = workspace.get();
  OneThread executor;
  LaunchTarget target;
  target.executor = &executor;
  return plan->kernel->Launch(problem, plan->config, arguments, target);
}

}  // namespace

OperandPlay PlayOperands(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  MatmulCall call;
  const std::uint64_t m = 1 + choices.Below(choices.Below(4) == 0 ? 140 : 9);
  const std::uint64_t n = 1 + choices.Below(choices.Below(4) == 0 ? 140 : 9);
  const std::uint64_t k = 1 + choices.Below(140);
  call.transpose_a = choices.Below(2) == 1;
  call.transpose_b = choices.Below(2) == 1;
  call.a = DrawOperand(choices, call.transpose_a ? k : m, call.transpose_a ? m : k,
                       !call.transpose_a, true);
  call.b = DrawOperand(choices, call.transpose_b ? n : k, call.transpose_b ? k : n,
                       call.transpose_b, false);
  if (choices.Below(2) == 1) call.output_type = static_cast<DataType>(choices.Below(17));
  if (choices.Below(4) == 1) call.accumulate_type = static_cast<DataType>(choices.Below(17));
  RequestLimits limits;
  limits.request_bytes = limits.result_bytes = 1 << 20;
  const absl::StatusOr<Problem> problem = ValidateHeader(call, limits);
  if (!problem.ok()) return OperandPlay::kHeaderRefused;
  const auto payload = *InlinePayload::Create(
      call, *problem, {}, [](std::uint64_t bytes) -> absl::StatusOr<HostPiece> {
        const std::shared_ptr<void> memory = Exactly(bytes);
        return HostPiece{static_cast<char*>(memory.get()), bytes, memory};
      });
  // The planes' bytes repeat the rest of the bytes, over and over. Not all are scales that anybody
  // has.
  const std::uint32_t mask = choices.Below(4) == 0 ? 0xFF : 0x3F;
  std::vector<char> pattern;
  for (int i = 0; i < 64; ++i) pattern.push_back(static_cast<char>(choices.Next() & mask));
  for (const OperandPlane& each : kOperandPlanes) {
    const std::uint64_t bytes = PlaneBytes(*problem, each.plane);
    if (bytes == 0) continue;
    std::string text;
    while (text.size() < bytes) text.append(pattern.begin(), pattern.end());
    text.resize(bytes);
    const absl::string_view piece = text;
    const absl::Status status =
        payload->Receive({each.operand, each.name, 0, absl::MakeConstSpan(&piece, 1)});
    if (!status.ok()) std::abort();
  }
  if (!payload->Check().ok()) return OperandPlay::kPayloadRefused;
  const absl::Status status = Multiply(*problem, payload->buffers());
  if (absl::IsFailedPrecondition(status)) return OperandPlay::kNoKernel;
  if (!status.ok()) std::abort();
  return OperandPlay::kComputed;
}

}  // namespace gemmd::testing
