// Measures overload, and what a tenant that asks for much does to one that asks for little. The
// server has half of the machine's cores and the clients the others; of two tenants each has a
// quarter. In rounds; a table for people, and JSON in a file.
//
//   overload_bench overload CASE [ROUNDS [SECONDS [JSON [SERVER_FLAG...]]]]
//       peak       answered a second in a closed loop, without deadlines, before and after
//       offered    three times the peak before, open loop (Poisson), each with a deadline
//       in time    of those answered a second; its ratio to the peak; target: at least 0.95
//       let in     by the server's count, and those of them that ended late; target: 99 % in time
//     CASE: small   16x64x64 f32, inline, unary, 1000 in flight, 20 ms
//           large   1024x1024x1024 f32, inline, streamed, 32 in flight, 500 ms
//           rows    1x4096x4096 bf16, B is stored, unary, 1000 in flight, 20 ms
//           device  16x2048x65536 f32, all is stored, streamed, 128 in flight, 20 ms
//   overload_bench tenants N [ROUNDS [SECONDS [JSON [SERVER_FLAG...]]]]
//     Products of N cubed in f32, inline. One tenant keeps 128 in flight over 4 connections, the
//     other one; the server with default limits, with both seen as two addresses, and with that and
//     40 % of memory a tenant.
//       alone      p50, p99 of the second without the first
//       beside     the same beside it, and the number refused; targets: p99 at most four times p50
//                  alone, twice the time of two products; none refused
//
// It starts server/gemmd and client/cli/gemm by these paths, from where it is run. ROUNDS is 3 and
// SECONDS 5 unless given; JSON of "-" is no file. On a GPU's host:
//
//   bazel build --config=opt --config=h200 //tests/load:overload_bench //server:gemmd
//       //client/cli:gemm
//   ./overload_bench overload small 3 5 small-cpu.json --device=cpu
//   ./overload_bench overload large 3 5 large-cpu.json --device=cpu
//   ./overload_bench overload rows 3 5 rows-gpu.json --device=cuda
//   ./overload_bench overload device 3 5 device-gpu.json --device=cuda
//   ./overload_bench tenants 4096 3 8 tenants.json --device=cuda
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/subprocess.h"
#include "tests/load/timing.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

struct Options {
  int rounds = 3;
  int seconds = 5;
  std::string json_file = "-";
  Words server_flags;
};

// The cores that this thread, and what it starts, may use: [begin, end) of `parts` equal parts. One
// core cannot be shared out: then all have all.
void UseCores(int begin, int end, int parts) {
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  if (all < parts) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = begin * all / parts; i < end * all / parts; ++i) CPU_SET(i, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("sched_setaffinity");
}

// One run of gemm bench: the only point of its report.
json Bench(const testing::ServerProcess& server, int seconds, const Words& tenant,
           const Words& load) {
  Words command = {"client/cli/gemm", "--server", server.address()};
  command.insert(command.end(), tenant.begin(), tenant.end());
  command.emplace_back("bench");
  command.insert(command.end(), load.begin(), load.end());
  for (const char* word : {"--json", "-q", "--warm-up", "1s", "--duration"}) {
    command.emplace_back(word);
  }
  command.push_back(absl::StrCat(seconds, "s"));
  const testing::ProcessResult result = testing::RunProcess(command);
  json report = json::parse(result.output, nullptr, false);
  if (!report.is_object() || !report.contains("points") || report["points"].size() != 1) {
    std::fprintf(stderr, "gemm bench: exit code %d\n%s%s\n", result.exit_code,
                 result.output.c_str(), result.error.c_str());
    std::exit(1);
  }
  return report["points"][0];
}

struct LetIn {
  std::uint64_t all = 0;
  std::uint64_t late = 0;
};

LetIn LetInBy(const testing::ServerProcess& server) {
  const auto stub = v1::Admin::NewStub(server.NewChannel());
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  v1::StatisticsResponse statistics;
  const grpc::Status status = stub->Statistics(&context, {}, &statistics);
  if (!status.ok()) {
    std::fprintf(stderr, "Admin.Statistics: %s\n", status.error_message().c_str());
    std::exit(1);
  }
  LetIn result;
  result.all = statistics.admitted_requests();
  for (const v1::QueueStatistics& queue : statistics.queues()) {
    result.late += queue.late_in_queue() + queue.late_on_device();
  }
  return result;
}

double At(const json& point, const char* pointer) {
  return point.at(json::json_pointer(pointer)).get<double>();
}

double MedianOf(const json& rows, const char* name) {
  std::vector<double> values;
  for (const json& row : rows) values.push_back(row.at(name).get<double>());
  return Median(std::move(values));
}

void Write(const std::string& file, const json& result) {
  if (file == "-") return;
  std::ofstream out(file);
  out << result.dump(2) << "\n";
  if (!out.flush()) {
    std::fprintf(stderr, "%s cannot be written\n", file.c_str());
    std::exit(1);
  }
}

struct Case {
  const char* name;
  const char* in_flight;  // of the closed loop
  const char* deadline;
  Words requests;
  Words overload;  // more for the open loop
};

const std::vector<Case>& Cases() {
  static const auto* const kCases = new std::vector<Case>{
      {"small",
       "1000",
       "20ms",
       {"-s", "16x64x64", "--channels", "16"},
       {"--senders", "4", "--max-in-flight", "1000"}},
      {"large",
       "32",
       "500ms",
       {"-s", "1024x1024x1024", "--channels", "8", "--call", "stream"},
       {"--senders", "2"}},
      {"rows",
       "1000",
       "20ms",
       {"-s", "1x4096x4096", "--type", "bf16", "--operands", "resident-b", "--call", "unary",
        "--channels", "16"},
       {"--senders", "4", "--max-in-flight", "1000"}},
      {"device",
       "128",
       "20ms",
       {"-s", "16x2048x65536", "--operands", "resident", "--call", "stream", "--channels", "8"},
       {"--senders", "4"}},
  };
  return *kCases;
}

json OverloadRound(const testing::ServerProcess& server, const Case& which, int seconds) {
  Words closed = which.requests;
  closed.insert(closed.end(), {"-c", which.in_flight});
  const auto peak = [&] { return At(Bench(server, seconds, {}, closed), "/requests_per_s"); };
  json row;
  row["peak_per_s"] = peak();
  Words open = which.requests;
  open.insert(open.end(), which.overload.begin(), which.overload.end());
  open.insert(open.end(), {"--deadline", which.deadline, "-r",
                           absl::StrCat(3 * row["peak_per_s"].get<double>())});
  const LetIn before = LetInBy(server);
  const json point = Bench(server, seconds, {}, open);
  const LetIn after = LetInBy(server);
  row["offered_per_s"] = point.at("offered_per_s");
  row["in_time_per_s"] = point.at("requests_per_s");
  row["ratio"] = At(point, "/requests_per_s") / row["peak_per_s"].get<double>();
  row["let_in"] = after.all - before.all;
  row["late"] = after.late - before.late;
  row["let_in_in_time"] = after.all == before.all ? 1.0
                                                  : 1.0 - static_cast<double>(row["late"]) /
                                                              static_cast<double>(row["let_in"]);
  row["p99_us"] = At(point, "/latency_us/p99");
  row["errors"] = point.at("errors");
  row["peak_after_per_s"] = peak();
  return row;
}

void Overload(const Case& which, const Options& options) {
  UseCores(0, 1, 2);
  const testing::ServerProcess server(options.server_flags);
  if (server.address().empty()) std::exit(1);
  UseCores(1, 2, 2);
  std::printf("%s: %d rounds of %d s\n", which.name, options.rounds, options.seconds);
  std::printf(
      "| peak/s | offered/s | in time/s | ratio | let in | late | in time | peak after |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  json rows = json::array();
  const auto print = [](const json& row) {
    std::printf("| %.0f | %.0f | %.0f | %.3f | %.0f | %.0f | %.4f | %.0f |\n",
                At(row, "/peak_per_s"), At(row, "/offered_per_s"), At(row, "/in_time_per_s"),
                At(row, "/ratio"), At(row, "/let_in"), At(row, "/late"), At(row, "/let_in_in_time"),
                At(row, "/peak_after_per_s"));
    std::fflush(stdout);
  };
  for (int i = 0; i < options.rounds; ++i) {
    rows.push_back(OverloadRound(server, which, options.seconds));
    print(rows.back());
  }
  json median;
  for (const char* name : {"peak_per_s", "offered_per_s", "in_time_per_s", "ratio", "let_in",
                           "late", "let_in_in_time", "peak_after_per_s"}) {
    median[name] = MedianOf(rows, name);
  }
  std::printf("medians:\n");
  print(median);
  Write(options.json_file, {{"measured", "overload"},
                            {"case", which.name},
                            {"server_flags", options.server_flags},
                            {"cores", std::thread::hardware_concurrency()},
                            {"rounds", rows},
                            {"medians", median}});
}

// Returns the figures of the second tenant's load that the targets speak of.
json PoliteRow(const json& point) {
  return {{"answered_per_s", point.at("requests_per_s")},
          {"requests", point.at("requests")},
          {"errors", point.at("errors")},
          {"failed", At(point, "/requests") - At(point, "/ok")},
          {"p50_us", At(point, "/latency_us/p50")},
          {"p99_us", At(point, "/latency_us/p99")}};
}

json TenantsRound(const Words& flags, const std::string& shape, int seconds) {
  const Words hog = {"--tenant", "hog"};
  const Words polite = {"--tenant", "polite"};
  const Words one = {"-s", shape, "--type", "f32", "--call", "auto", "-c", "1"};
  const Words many = {"-s",   shape, "--type", "f32",        "--call",
                      "auto", "-c",  "128",    "--channels", "4"};
  UseCores(0, 4, 8);
  const testing::ServerProcess server(flags);
  if (server.address().empty()) std::exit(1);
  UseCores(6, 8, 8);
  json row;
  row["alone"] = PoliteRow(Bench(server, seconds, polite, one));
  constexpr int kBeforeSeconds = 4;
  json of_hog;
  std::thread hogging([&] {
    UseCores(4, 6, 8);
    of_hog = Bench(server, seconds + 2 * kBeforeSeconds, hog, many);
  });
  std::this_thread::sleep_for(std::chrono::seconds(kBeforeSeconds));
  row["beside"] = PoliteRow(Bench(server, seconds, polite, one));
  hogging.join();
  row["hog"] = PoliteRow(of_hog);
  row["p99_over_p50_alone"] = At(row, "/beside/p99_us") / At(row, "/alone/p50_us");
  row["failed_beside"] = row["beside"]["failed"];
  return row;
}

void Tenants(const std::string& size, const Options& options) {
  const std::string shape = absl::StrCat(size, "x", size, "x", size);
  const std::vector<Words> servers = {
      {},
      {"--limits.proxies=127.0.0.1"},
      {"--limits.proxies=127.0.0.1", "--scheduling.tenant-percent=40"},
  };
  std::printf("%s, f32: %d rounds of %d s\n", shape.c_str(), options.rounds, options.seconds);
  std::printf(
      "| server | hog's/s, failed | alone: p50, p99 ms | beside: /s, failed | p50, p99 ms | p99 by "
      "p50 alone |\n|---|---|---|---|---|---|\n");
  json result = json::array();
  for (const Words& more : servers) {
    Words flags = options.server_flags;
    flags.insert(flags.end(), more.begin(), more.end());
    json rows = json::array();
    for (int i = 0; i < options.rounds; ++i) {
      const json& row = rows.emplace_back(TenantsRound(flags, shape, options.seconds));
      const std::string name = more.empty() ? "default" : absl::StrJoin(more, " ");
      constexpr double kUsPerMs = 1000;
      std::printf("| %s | %.1f, %.0f | %.1f, %.1f | %.1f, %.0f | %.1f, %.1f | %.2f |\n",
                  name.c_str(), At(row, "/hog/answered_per_s"), At(row, "/hog/failed"),
                  At(row, "/alone/p50_us") / kUsPerMs, At(row, "/alone/p99_us") / kUsPerMs,
                  At(row, "/beside/answered_per_s"), At(row, "/beside/failed"),
                  At(row, "/beside/p50_us") / kUsPerMs, At(row, "/beside/p99_us") / kUsPerMs,
                  At(row, "/p99_over_p50_alone"));
      std::fflush(stdout);
    }
    result.push_back({{"server_flags", flags},
                      {"rounds", rows},
                      {"median_p99_over_p50_alone", MedianOf(rows, "p99_over_p50_alone")},
                      {"median_failed", MedianOf(rows, "failed_beside")}});
  }
  Write(options.json_file, {{"measured", "tenants"},
                            {"shape", shape},
                            {"cores", std::thread::hardware_concurrency()},
                            {"servers", result}});
}

int Usage() {
  std::fprintf(stderr,
               "usage: overload_bench overload small|large|rows|device [ROUNDS [SECONDS [JSON "
               "[SERVER_FLAG...]]]]\n"
               "       overload_bench tenants N [ROUNDS [SECONDS [JSON [SERVER_FLAG...]]]]\n");
  return 2;
}

int Main(const Words& words) {
  if (words.size() < 2) return Usage();
  Options options;
  if (words.size() > 2) options.rounds = std::atoi(words[2].c_str());
  if (words.size() > 3) options.seconds = std::atoi(words[3].c_str());
  if (words.size() > 4) options.json_file = words[4];
  if (words.size() > 5) options.server_flags.assign(words.begin() + 5, words.end());
  if (options.rounds < 1 || options.seconds < 1) return Usage();
  if (words[0] == "tenants" && std::atoi(words[1].c_str()) > 0) {
    Tenants(words[1], options);
    return 0;
  }
  const auto which = std::find_if(Cases().begin(), Cases().end(),
                                  [&](const Case& each) { return each.name == words[1]; });
  if (words[0] != "overload" || which == Cases().end()) return Usage();
  Overload(*which, options);
  return 0;
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) { return gemmd::Main({argv + 1, argv + argc}); }
