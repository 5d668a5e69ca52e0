#include "server/rpc/codec/wire_types.h"

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

constexpr Table<v1::PlaneName, PlaneName, 5> kPlanes = {{
    {v1::DATA, PlaneName::kData},
    {v1::SCALES, PlaneName::kScales},
    {v1::ZERO_POINTS, PlaneName::kZeroPoints},
    {v1::TENSOR_SCALE, PlaneName::kTensorScale},
    {v1::OFFSETS, PlaneName::kOffsets},
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

std::optional<Priority> FromWire(v1::Priority priority) { return Find(kPriorities, priority); }
std::optional<OperandName> FromWire(v1::OperandName operand) { return Find(kOperands, operand); }
std::optional<PlaneName> FromWire(v1::PlaneName plane) { return Find(kPlanes, plane); }

v1::PlaneName ToWire(PlaneName plane) { return FindWire(kPlanes, plane); }
v1::StageName ToWire(Stage stage) { return FindWire(kStages, stage); }

}  // namespace gemmd
