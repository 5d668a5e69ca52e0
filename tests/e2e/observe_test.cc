// What a real server shows over HTTP, against what its clients know.
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/certificates.h"
#include "tests/testing/exposition_parser.h"
#include "tests/testing/http_client.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using testing::HttpGet;
using testing::HttpResult;
using testing::ServerProcess;
using testing::ZeroRequest;

std::vector<std::string> Flags(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"--cpu.threads=1", "--observe.listen=127.0.0.1:0"});
  return more;
}

ReadPage Scrape(const ServerProcess& server, ExpositionForm form = ExpositionForm::kPrometheus) {
  const HttpResult result = HttpGet(server.observe_address(), "/metrics",
                                    form == ExpositionForm::kOpenMetrics
                                        ? "Accept: application/openmetrics-text;version=1.0.0\r\n"
                                        : "");
  EXPECT_EQ(result.code, 200);
  const absl::StatusOr<ReadPage> page = ReadExposition(result.body, form);
  EXPECT_TRUE(page.ok()) << page.status();
  return page.ok() ? *page : ReadPage();
}

// The sum over all series of a family's sample.
double SumOf(const ReadPage& page, const std::string& family, const std::string& sample) {
  double sum = 0;
  const ReadFamily* const found = page.Find(family);
  EXPECT_NE(found, nullptr) << family;
  if (found == nullptr) return 0;
  for (const ReadSample& each : found->samples) {
    if (each.name == sample) sum += each.value;
  }
  return sum;
}

// What one client asked for and was told.
struct Told {
  std::map<std::string, double> by_code;
  std::map<std::string, double> ok_by_tenant;
  double payload_in = 0;  // of those that were OK
  double payload_out = 0;
  double flops = 0;
};

const char* CodeName(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return "OK";
    case grpc::StatusCode::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case grpc::StatusCode::FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case grpc::StatusCode::NOT_FOUND:
      return "NOT_FOUND";
    default:
      return "another";
  }
}

void Ask(v1::Gemm::Stub* gemm, std::mt19937* random, Told* told) {
  const std::uint64_t n = 1 + (*random)() % 64;
  v1::MatmulRequest request = ZeroRequest(n);
  switch ((*random)() % 6) {
    case 0:
      request.mutable_header()->mutable_a()->mutable_data()->set_rows(0);
      break;
    case 1:
      request.mutable_header()->set_kernel("sm90/imagined");
      break;
    case 2:
      request.mutable_header()->mutable_b()->set_handle(std::string(64, '0'));
      request.mutable_payload()->RemoveLast();
      break;
    default:
      break;
  }
  const std::string tenant = absl::StrCat("tenant-", (*random)() % 5);
  grpc::ClientContext context;
  context.AddMetadata("gemmd-tenant", tenant);
  v1::MatmulResponse response;
  const grpc::Status status = gemm->Matmul(&context, request, &response);
  ++told->by_code[CodeName(status.error_code())];
  if (!status.ok()) return;
  ++told->ok_by_tenant[tenant];
  const auto cube = static_cast<double>(n * n * n);
  const auto plane = static_cast<double>(n * n * sizeof(float));
  told->flops += 2 * cube;
  told->payload_in += 2 * plane;
  told->payload_out += plane;
}

// Whatever a client asks for, the counters are what it was told.
TEST(ObserveTest, SumsOfCountersAreTheClientsOwnCounts) {
  const ServerProcess server(Flags());
  ASSERT_FALSE(server.observe_address().empty());
  const auto gemm = v1::Gemm::NewStub(server.NewChannel());
  std::mt19937 random(29);
  Told told;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 40; ++i) Ask(gemm.get(), &random, &told);
    const ReadPage page = Scrape(server);
    double all = 0;
    for (const auto& [code, count] : told.by_code) {
      EXPECT_EQ(page.Value("gemmd_requests_finished_total", {{"code", code}}), count) << code;
      all += count;
    }
    EXPECT_EQ(SumOf(page, "gemmd_requests_finished_total", "gemmd_requests_finished_total"), all);
    EXPECT_EQ(page.Value("gemmd_requests_received_total"), all);
    const double ok = told.by_code["OK"];
    EXPECT_EQ(page.Value("gemmd_requests_admitted_total"), ok);
    EXPECT_EQ(page.Value("gemmd_requests_in_flight"), 0);
    EXPECT_EQ(SumOf(page, "gemmd_requests_refused_total", "gemmd_requests_refused_total"),
              all - ok);
    EXPECT_EQ(page.Value("gemmd_requests_refused_total", {{"cause", "invalid"}}),
              told.by_code["INVALID_ARGUMENT"]);
    EXPECT_EQ(page.Value("gemmd_requests_refused_total", {{"cause", "no_kernel"}}),
              told.by_code["FAILED_PRECONDITION"]);
    EXPECT_EQ(page.Value("gemmd_requests_refused_total", {{"cause", "not_found"}}),
              told.by_code["NOT_FOUND"]);
    EXPECT_EQ(page.Value("gemmd_request_duration_seconds_count"), ok);
    EXPECT_EQ(page.Value("gemmd_stage_duration_seconds_count", {{"stage", "decode"}}), ok);
    EXPECT_EQ(page.Value("gemmd_flops_total"), told.flops);
    EXPECT_EQ(page.Value("gemmd_payload_bytes_total", {{"direction", "in"}, {"via", "wire"}}),
              told.payload_in);
    EXPECT_EQ(page.Value("gemmd_payload_bytes_total", {{"direction", "out"}, {"via", "wire"}}),
              told.payload_out);
    for (const auto& [tenant, count] : told.ok_by_tenant) {
      EXPECT_EQ(page.Value("gemmd_tenant_requests_total", {{"tenant", tenant}, {"outcome", "ok"}}),
                count);
    }
    EXPECT_EQ(SumOf(page, "gemmd_kernel_requests_total", "gemmd_kernel_requests_total"), ok);
    EXPECT_EQ(SumOf(page, "gemmd_kernel_flops_total", "gemmd_kernel_flops_total"), told.flops);
    EXPECT_EQ(SumOf(page, "gemmd_launched_requests_total", "gemmd_launched_requests_total"), ok);
    EXPECT_EQ(SumOf(page, "gemmd_kernel_launches_total", "gemmd_kernel_launches_total"),
              SumOf(page, "gemmd_launches_total", "gemmd_launches_total"));
    EXPECT_EQ(page.Value("gemmd_batch_requests_sum", {{"device", "cpu"}}), ok);
    EXPECT_EQ(page.Value("gemmd_http_requests_total", {{"outcome", "answered"}}), round + 1);
  }
}

TEST(ObserveTest, OpenMetricsHasARequestsIdAsExemplar) {
  const ServerProcess server(Flags());
  const auto gemm = v1::Gemm::NewStub(server.NewChannel());
  grpc::ClientContext context;
  v1::MatmulResponse response;
  ASSERT_TRUE(gemm->Matmul(&context, ZeroRequest(8), &response).ok());
  const ReadPage page = Scrape(server, ExpositionForm::kOpenMetrics);
  const ReadFamily* const durations = page.Find("gemmd_request_duration_seconds");
  ASSERT_NE(durations, nullptr);
  std::vector<std::string> ids;
  for (const ReadSample& each : durations->samples) {
    if (each.exemplar.has_value()) ids.push_back(each.exemplar->labels.at("request_id"));
  }
  EXPECT_EQ(ids, std::vector<std::string>{absl::StrCat(response.receipt().request_id())});
}

TEST(ObserveTest, ItIsNotReadyWhileItDrains) {
  ServerProcess server(Flags({"--limits.connections-per-second=0"}));
  EXPECT_EQ(HttpGet(server.observe_address(), "/healthz").code, 200);
  EXPECT_EQ(HttpGet(server.observe_address(), "/readyz").code, 200);
  // A request whose payload is on its way keeps the drain going.
  const auto gemm = v1::Gemm::NewStub(server.NewChannel());
  grpc::ClientContext context;
  const auto call = gemm->MatmulStream(&context);
  const v1::MatmulRequest request = ZeroRequest(8);
  v1::MatmulStreamRequest begin;
  begin.mutable_begin()->set_request_id(1);
  begin.mutable_begin()->set_await_accepted(true);
  *begin.mutable_begin()->mutable_header() = request.header();
  ASSERT_TRUE(call->Write(begin));
  v1::MatmulStreamResponse response;
  while (!response.has_accepted()) ASSERT_TRUE(call->Read(&response));
  server.Signal(SIGTERM);
  while (HttpGet(server.observe_address(), "/readyz").code == 200) {
  }
  EXPECT_EQ(HttpGet(server.observe_address(), "/readyz").code, 503);
  EXPECT_EQ(HttpGet(server.observe_address(), "/healthz").code, 200);
  EXPECT_EQ(Scrape(server).Value("gemmd_draining"), 1);
  context.TryCancel();
}

TEST(ObserveTest, OffUnlessAskedFor) {
  const ServerProcess server({"--cpu.threads=1"});
  EXPECT_EQ(server.observe_address(), "");
}

TEST(ObserveTest, AnAddressThatIsTakenEndsTheStart) {
  const ServerProcess first(Flags());
  ServerProcess second({"--cpu.threads=1", "--observe.listen=" + first.observe_address()});
  EXPECT_EQ(second.WaitForExit(), 1);
  EXPECT_NE(second.log().find(first.observe_address()), std::string::npos) << second.log();
}

// TLS and roles are those of the gRPC side.
TEST(ObserveTest, RolesAndTlsAreTheServers) {
  const testing::CertificateAuthority authority("authority");
  const testing::CertificateFiles server_files =
      authority.Issue("server", {"/CN=server", "DNS:gemmd.test", "", ""});
  const testing::TemporaryDirectory folder;
  const std::string policy = folder.Path("policy.textproto");
  std::ofstream(policy) << "certificate { common_name: \"watch\" tenant: \"w\" role: OBSERVER }\n"
                        << "certificate { common_name: \"user\" tenant: \"u\" role: USER }\n";
  const ServerProcess server(Flags(
      {"--tls.certificate-file=" + server_files.certificate, "--tls.key-file=" + server_files.key,
       "--tls.client-ca-file=" + authority.certificate_file(), "--tls.client-certificates=optional",
       "--auth.policy-file=" + policy}));
  const auto get = [&](const std::string& path, const testing::CertificateFiles& shown = {}) {
    const testing::HttpTls tls{authority.certificate_file(), shown.certificate, shown.key};
    return HttpGet(server.observe_address(), path, "", &tls);
  };
  EXPECT_EQ(get("/healthz").code, 200);
  EXPECT_EQ(get("/metrics").code, 401);
  EXPECT_EQ(get("/metrics", authority.Issue("user", {"/CN=user", "", "", ""})).code, 403);
  const HttpResult page = get("/metrics", authority.Issue("watch", {"/CN=watch", "", "", ""}));
  EXPECT_EQ(page.code, 200);
  const absl::StatusOr<ReadPage> read = ReadExposition(page.body, ExpositionForm::kPrometheus);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_GT(read->Value("gemmd_certificate_expiry_timestamp_seconds").value_or(0), 1.7e9);
  EXPECT_EQ(HttpGet(server.observe_address(), "/healthz").code, 0) << "in plain text";
}

}  // namespace
}  // namespace gemmd
