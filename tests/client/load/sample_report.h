// A report of a simulated sweep, the same every time, for tests of what is made of it.
#pragma once

#include "base/time/units.h"
#include "client/load/report/report.h"
#include "tests/client/load/simulation.h"

namespace gemmd::testing {

// Concurrencies 1, 2, 4, ... on a server that takes one request a millisecond, where
// each hundredth request fails.
inline load::Json SampleReport(int points = 4, load::TimeNs service_ns = 1000000) {
  load::Json report = {{"format", load::kReportFormat},
                       {"format_version", load::kReportVersion},
                       {"command", "gemm bench <&\"'>"},
                       {"points", load::Json::array()}};
  for (int i = 0; i < points; ++i) {
    OneByOne queue(service_ns);
    Simulation simulation([queue](const load::Request& request, load::TimeNs now_ns) mutable {
      Simulation::Answer answer = queue(request, now_ns);
      if (request.index % 100 == 99) answer.reply.code = absl::StatusCode::kResourceExhausted;
      answer.reply.stage_us[load::kQueue] = static_cast<float>(answer.delay_ns) / 1e3F - 1000;
      answer.reply.stage_us[load::kCompute] = 1000;
      answer.reply.batch_requests = 1 + request.index % 3;
      return answer;
    });
    load::LoadOptions options;
    options.concurrency = 1 << i;
    options.duration_ns = 5 * kSecond;
    const load::LoadRun run = *GenerateLoad(options, {1}, simulation, simulation);
    const load::Summary summary = Summarize(run, {load::EntryCost{1000, 500, 1e6}});
    load::Findings findings;
    findings.first_errors["RESOURCE_EXHAUSTED"] = "full <now>";
    report["points"].push_back(PointJson(options, run, summary, findings, {"entry"}));
  }
  return report;
}

}  // namespace gemmd::testing
