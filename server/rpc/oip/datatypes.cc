#include "server/rpc/oip/datatypes.h"

namespace gemmd {
namespace {

struct Row {
  absl::string_view name;
  inference::DataType config;
  DataType type;
};
constexpr Row kTable[] = {
    {"FP64", inference::TYPE_FP64, DataType::kF64},
    {"FP32", inference::TYPE_FP32, DataType::kF32},
    {"FP16", inference::TYPE_FP16, DataType::kF16},
    {"BF16", inference::TYPE_BF16, DataType::kBf16},
    {"INT8", inference::TYPE_INT8, DataType::kInt8},
    {"INT32", inference::TYPE_INT32, DataType::kInt32},
};

const Row* RowOf(DataType type) {
  for (const Row& each : kTable) {
    if (each.type == type) return &each;
  }
  return nullptr;
}

}  // namespace

std::optional<DataType> DatatypeOf(absl::string_view name) {
  for (const Row& each : kTable) {
    if (each.name == name) return each.type;
  }
  return std::nullopt;
}

absl::string_view DatatypeName(DataType type) {
  const Row* const row = RowOf(type);
  return row == nullptr ? absl::string_view() : row->name;
}

inference::DataType ConfigTypeOf(DataType type) {
  const Row* const row = RowOf(type);
  return row == nullptr ? inference::TYPE_INVALID : row->config;
}

}  // namespace gemmd
