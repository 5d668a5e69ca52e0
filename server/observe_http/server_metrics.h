// All that /metrics shows, from what each layer counts anyway: nothing here is on a request's way.
//
// Names and units follow Prometheus' conventions. Every label has a bounded number of values:
// codes, causes, stages, forms and kinds are fixed lists; devices are those of the machine;
// kernels, products and tenants have tables of their own sizes (Statistics::kKernels, kProducts,
// kTenants), and "(other)".
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/admission/admission.h"
#include "server/admission/tuner.h"
#include "server/admission/waiting_room.h"
#include "server/holdings/overview.h"
#include "server/net/connection_table.h"
#include "server/observe/exposition.h"
#include "server/observe/gpu_sensors.h"
#include "server/observe/statistics.h"
#include "server/observe_http/http_server.h"
#include "server/regions/region_table.h"
#include "server/scheduling/router.h"
#include "server/store/operand_store.h"
#include "server/trace/tracer.h"
#include "server/verification/verifier.h"

namespace gemmd {

// All pointers outlive their use.
struct MetricSources {
  const Router* router = nullptr;
  const Statistics* statistics = nullptr;
  const Tracer* tracer = nullptr;  // null: none
  const OperandStore* store = nullptr;
  const RegionTable* regions = nullptr;
  const Verifier* verifier = nullptr;
  const WaitingRoom* room = nullptr;
  const Admission* admission = nullptr;
  const Tuner* tuner = nullptr;
  std::function<std::size_t()> measured_plans;
  ConnectionTable* connections = nullptr;
  const HoldingsOverview* holdings = nullptr;
  const GpuSensors* gpus = nullptr;  // null: none
  std::function<HttpServer::Counts()> http;
  // When the server's certificate ends, in seconds since 1970; none in plaintext.
  std::function<std::optional<double>()> certificate_expiry;
};

// More series than this CollectMetrics() never gives for a machine of so many devices.
std::size_t MostSeries(std::size_t devices);

std::vector<MetricFamily> CollectMetrics(const MetricSources& sources);

}  // namespace gemmd
