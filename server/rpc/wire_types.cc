#include "server/rpc/wire_types.h"

#include <array>
#include <utility>

namespace gemmd {
namespace {

template <typename Wire, typename Ours, std::size_t count>
using Table = std::array<std::pair<Wire, Ours>, count>;

template <typename Wire, typename Ours, std::size_t count>
std::optional<Ours> Find(const Table<Wire, Ours, count>& table, Wire wire) {
  for (const auto& [from, to] : table) {
    if (from == wire) return to;
  }
  return std::nullopt;
}

// REQUIRES: every value of Ours is in the table.
template <typename Wire, typename Ours, std::size_t count>
Wire FindWire(const Table<Wire, Ours, count>& table, Ours ours) {
  for (const auto& [to, from] : table) {
    if (from == ours) return to;
  }
  return Wire{};
}

constexpr Table<v1::DataType, DataType, 17> kDataTypes = {{
    {v1::F64, DataType::kF64},
    {v1::F32, DataType::kF32},
    {v1::TF32, DataType::kTf32},
    {v1::F16, DataType::kF16},
    {v1::BF16, DataType::kBf16},
    {v1::INT8, DataType::kInt8},
    {v1::INT32, DataType::kInt32},
    {v1::FP8_E4M3, DataType::kFp8E4M3},
    {v1::FP8_E5M2, DataType::kFp8E5M2},
    {v1::MXFP8_E4M3, DataType::kMxfp8E4M3},
    {v1::INT4, DataType::kInt4},
    {v1::E8M0, DataType::kE8M0},
    {v1::UINT8, DataType::kUint8},
    {v1::UINT4, DataType::kUint4},
    {v1::FP6_E3M2, DataType::kFp6E3M2},
    {v1::FP6_E2M3, DataType::kFp6E2M3},
    {v1::FP4_E2M1, DataType::kFp4E2M1},
}};

constexpr Table<v1::Order, Order, 2> kOrders = {{
    {v1::ROW_MAJOR, Order::kRowMajor},
    {v1::COLUMN_MAJOR, Order::kColumnMajor},
}};

constexpr Table<v1::Activation, Activation, 4> kActivations = {{
    {v1::NONE, Activation::kNone},
    {v1::RELU, Activation::kRelu},
    {v1::GELU_TANH, Activation::kGeluTanh},
    {v1::SILU, Activation::kSilu},
}};

constexpr Table<v1::Determinism, Determinism, 2> kDeterminisms = {{
    {v1::BATCH_INVARIANT, Determinism::kBatchInvariant},
    {v1::FAST, Determinism::kFast},
}};

constexpr Table<v1::Priority, Priority, 3> kPriorities = {{
    {v1::PRIORITY_NORMAL, Priority::kNormal},
    {v1::PRIORITY_HIGH, Priority::kHigh},
    {v1::PRIORITY_LOW, Priority::kLow},
}};

constexpr Table<v1::OperandName, OperandName, 4> kOperands = {{
    {v1::A, OperandName::kA},
    {v1::B, OperandName::kB},
    {v1::C, OperandName::kC},
    {v1::BIAS, OperandName::kBias},
}};

constexpr Table<v1::PlaneName, PlaneName, 4> kPlanes = {{
    {v1::DATA, PlaneName::kData},
    {v1::SCALES, PlaneName::kScales},
    {v1::ZERO_POINTS, PlaneName::kZeroPoints},
    {v1::TENSOR_SCALE, PlaneName::kTensorScale},
}};

constexpr Table<v1::StageName, Stage, kStageCount> kStages = {{
    {v1::DECODE, Stage::kDecode},
    {v1::RECEIVE, Stage::kReceive},
    {v1::VERIFY, Stage::kVerify},
    {v1::ADMISSION, Stage::kAdmission},
    {v1::QUEUE, Stage::kQueue},
    {v1::COPY_IN, Stage::kCopyIn},
    {v1::COMPUTE, Stage::kCompute},
    {v1::COPY_OUT, Stage::kCopyOut},
    {v1::ENCODE, Stage::kEncode},
}};

}  // namespace

std::optional<DataType> FromWire(v1::DataType type) { return Find(kDataTypes, type); }
std::optional<Order> FromWire(v1::Order order) { return Find(kOrders, order); }
std::optional<Activation> FromWire(v1::Activation activation) {
  return Find(kActivations, activation);
}
std::optional<Determinism> FromWire(v1::Determinism determinism) {
  return Find(kDeterminisms, determinism);
}
std::optional<Priority> FromWire(v1::Priority priority) { return Find(kPriorities, priority); }
std::optional<OperandName> FromWire(v1::OperandName operand) { return Find(kOperands, operand); }
std::optional<PlaneName> FromWire(v1::PlaneName plane) { return Find(kPlanes, plane); }

v1::DataType ToWire(DataType type) { return FindWire(kDataTypes, type); }
v1::Order ToWire(Order order) { return FindWire(kOrders, order); }
v1::Determinism ToWire(Determinism determinism) { return FindWire(kDeterminisms, determinism); }
v1::PlaneName ToWire(PlaneName plane) { return FindWire(kPlanes, plane); }
v1::StageName ToWire(Stage stage) { return FindWire(kStages, stage); }

}  // namespace gemmd
