#include "client/cli/bench/bench_explain.h"

#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/table.h"
#include "client/quantized/quantized_array.h"
#include "client/wire/matmul_header.h"
#include "client/wire/wire_types.h"

namespace gemmd::cli {
namespace {

// Describes the operand as one that comes with the request. Weights that stay on the server may be
// packed there, and then another kernel serves them.
void Describe(const load::WorkloadEntry& entry, client::Side side, v1::Operand* operand) {
  const client::MatrixFormat& matrix = side == client::Side::kA ? entry.a : entry.b;
  const QuantFormat* const format = FindQuantFormat(entry.quantized(side));
  if (format == nullptr) {
    client::SetPlane(matrix, operand->mutable_data());
    return;
  }
  client::QuantizedArray array;
  array.format = *format;
  array.rows = matrix.rows;
  array.columns = matrix.columns;
  array.k_axis = client::KAxisOf(side, false);
  const client::OperandPlanes planes = client::PlanesOf(array, side);
  client::SetPlane(planes.data, operand->mutable_data());
  client::SetPlane(planes.scales, operand->mutable_scales());
  if (planes.zero_points) client::SetPlane(*planes.zero_points, operand->mutable_zero_points());
  if (planes.tensor_scale) client::SetPlane(*planes.tensor_scale, operand->mutable_tensor_scale());
  if (planes.offsets) client::SetPlane(*planes.offsets, operand->mutable_offsets());
  if (planes.blocks) client::SetBlocks(*planes.blocks, operand->mutable_quantization());
}

v1::EstimateRequest Request(const load::WorkloadEntry& entry) {
  v1::EstimateRequest request;
  v1::MatmulHeader& header = *request.mutable_header();
  client::SetHeader(entry.options, header);
  Describe(entry, client::Side::kA, header.mutable_a());
  Describe(entry, client::Side::kB, header.mutable_b());
  return request;
}

}  // namespace

Outcome ExplainBench(const GlobalOptions& global, const BenchArguments& arguments) {
  load::Workload workload;
  if (Outcome failure = ReadWorkload(arguments, workload)) return failure;
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  Table table({{"request", Table::Align::kLeft},
               {"kernel", Table::Align::kLeft},
               {"plan", Table::Align::kLeft},
               {"compute us", Table::Align::kRight},
               {"numerics", Table::Align::kLeft}});
  nlohmann::ordered_json requests = nlohmann::ordered_json::array();
  for (const load::WorkloadEntry& entry : workload) {
    const auto estimate = connection->Estimate(Request(entry), CallWithin(global.timeout));
    if (!estimate.ok()) {
      return ServerFailure(
          global.server, absl::Status(estimate.status().code(),
                                      absl::StrCat(entry.name, ": ", estimate.status().message())));
    }
    table.AddRow({entry.name, absl::StrCat(estimate->kernel(), ", ", estimate->device()),
                  estimate->plan(), Microseconds(estimate->compute_us()), estimate->numerics_id()});
    requests.push_back({{"name", entry.name}, {"estimate", ToJson(*estimate)}});
  }
  if (global.json) {
    std::cout << nlohmann::ordered_json{{"requests", requests}}.dump() << "\n";
  } else {
    std::cout << table.Render();
  }
  return std::nullopt;
}

}  // namespace gemmd::cli
