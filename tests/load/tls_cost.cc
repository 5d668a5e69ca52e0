// Measures the cost of TLS. Two servers, in plain text and with TLS whose clients show
// certificates; `gemm bench --ceiling` measures each, and the bare echo in the same way, in turns.
// Medians of the rounds:
//   requests/s, GB/s     of gemmd and of the echo
//   ratio                TLS by plain text, of each
// Target: gemmd's ratio is at least 0.95 of the echo's, for small and for large products.
//
//   bazel run --config=opt //tests/load:tls_cost [-- ROUNDS [DURATION]]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/client/testing/subprocess.h"
#include "tests/load/timing.h"
#include "tests/testing/certificates.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

struct Rates {
  std::vector<double> requests_per_s;
  std::vector<double> gb_per_s;
};

struct Measured {
  Rates gemmd;
  Rates echo;
};

void Measure(std::vector<std::string> bench, const std::vector<std::string>& more,
             Measured& measured) {
  bench.insert(bench.end(), more.begin(), more.end());
  const testing::ProcessResult result = testing::RunProcess(bench);
  const auto report = nlohmann::json::parse(result.output, nullptr, false);
  if (result.exit_code != 0 || !report.is_object()) {
    std::fprintf(stderr, "gemm bench: %s\n", result.error.c_str());
    std::exit(1);
  }
  const auto& point = report.at("points").at(0);
  measured.gemmd.requests_per_s.push_back(point.at("requests_per_s"));
  measured.gemmd.gb_per_s.push_back(point.at("gb_per_s"));
  measured.echo.requests_per_s.push_back(report.at("ceiling").at("requests_per_s"));
  measured.echo.gb_per_s.push_back(report.at("ceiling").at("gb_per_s"));
}

// The ratio of the medians, which it prints.
double Print(const char* who, const Rates& plain, const Rates& tls) {
  const double ratio = Median(tls.requests_per_s) / Median(plain.requests_per_s);
  std::printf("  %-6s %10.1f %8.3f %10.1f %8.3f %7.3f\n", who, Median(plain.requests_per_s),
              Median(plain.gb_per_s), Median(tls.requests_per_s), Median(tls.gb_per_s), ratio);
  return ratio;
}

void Compare(const std::string& shape, int rounds, const std::string& duration) {
  const testing::CertificateAuthority authority("authority");
  const auto server = authority.Issue("server", {"/CN=server", "DNS:gemmd.test", "", ""});
  const auto client = authority.Issue("client", {"/CN=client", "", "", ""});
  const testing::ServerProcess plain_server;
  const testing::ServerProcess tls_server({"--tls.certificate-file=" + server.certificate,
                                           "--tls.key-file=" + server.key,
                                           "--tls.client-ca-file=" + authority.certificate_file()});
  const std::vector<std::string> bench = {
      "client/cli/gemm", "bench",  "-c",        "16",     "--channels", "4", "-s", shape,
      "--duration",      duration, "--ceiling", "--json", "-q"};
  Measured plain;
  Measured tls;
  for (int i = 0; i < rounds; ++i) {
    Measure(bench, {"--server", plain_server.address()}, plain);
    Measure(bench,
            {"--server", tls_server.address(), "--tls", "--tls-root-certs",
             authority.certificate_file(), "--tls-server-name", "gemmd.test", "--tls-client-cert",
             client.certificate, "--tls-client-key", client.key},
            tls);
  }
  std::printf("%s, %d rounds\n  %-6s %10s %8s %10s %8s %7s\n", shape.c_str(), rounds, "",
              "plain r/s", "GB/s", "TLS r/s", "GB/s", "ratio");
  const double of_echo = Print("echo", plain.echo, tls.echo);
  const double of_gemmd = Print("gemmd", plain.gemmd, tls.gemmd);
  std::printf("  gemmd's ratio is %.3f of the echo's\n", of_gemmd / of_echo);
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::string duration = argc > 2 ? argv[2] : "3s";
  if (rounds < 1) {
    std::fprintf(stderr, "ROUNDS is %s; it must be at least 1\n", argv[1]);
    return 2;
  }
  // Small, where a request's own cost decides; and one of a mebibyte, where the bytes do.
  for (const char* shape : {"8x8x8", "4x512x512"}) gemmd::Compare(shape, rounds, duration);
  return 0;
}
