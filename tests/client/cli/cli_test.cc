#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/load/transport/self_signed.h"
#include "gmock/gmock.h"
#include "tests/client/cli/cli_fixture.h"

namespace gemmd::cli {
namespace {

using ::gemmd::testing::ProcessResult;
using ::gemmd::testing::RunProcess;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CliTest, InfoShowsTheServer) {
  v1::ServerInfoResponse& info = server_.server_info;
  info.set_version("1.2.3");
  info.mutable_uptime()->set_seconds(3661);
  info.mutable_uptime()->set_nanos(500000000);
  info.mutable_limits()->set_message_bytes(64 << 20);
  info.mutable_limits()->set_calls_per_connection(24);
  info.add_unimplemented_rpcs("Gemm.Estimate");
  info.add_devices()->set_name("cpu");
  info.mutable_devices(0)->mutable_memory()->set_free_bytes(1023);

  const ProcessResult human = Gemm({"info"});
  EXPECT_EQ(human.exit_code, 0) << human.error;
  EXPECT_THAT(human.output,
              AllOf(HasSubstr("gemmd 1.2.3"), HasSubstr("1h1m1s"), HasSubstr("message 64.0 MiB"),
                    HasSubstr("connection 24 calls"), HasSubstr("Gemm.Estimate"),
                    HasSubstr("1023 B"), HasSubstr("serving")));
  const auto json = nlohmann::json::parse(Gemm({"info", "--json"}).output);
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["uptime_s"], 3661.5);
  EXPECT_EQ(json["draining"], false);
  EXPECT_EQ(json["limits"]["message_bytes"], 64 << 20);
  EXPECT_EQ(json["devices"][0]["memory"]["free_bytes"], 1023);
  EXPECT_EQ(json["unimplemented_rpcs"][0], "Gemm.Estimate");
}

TEST_F(CliTest, StatsShowPredictionsLaunchesAndVerification) {
  v1::CostStatistics& cost = *server_.statistics.add_costs();
  cost.set_device("cuda:0");
  v1::PredictionError& time = *cost.mutable_device_time();
  time.set_count(7);
  time.set_predicted_us(150);
  time.set_measured_us(200);
  time.set_mean_absolute_relative_error(0.125);
  v1::QueueStatistics& queue = *server_.statistics.add_queues();
  queue.set_device("cuda:0");
  queue.mutable_alone()->set_launches(7);
  queue.mutable_alone()->set_requests(7);
  queue.mutable_rows()->set_launches(3);
  queue.mutable_rows()->set_requests(40);
  queue.set_late_in_queue(2);
  queue.set_late_on_device(1);
  v1::VerificationStatistics& verification = *server_.statistics.mutable_verification();
  verification.set_checked(9);
  verification.set_failed(1);
  verification.set_worst_residual(12.5);
  verification.set_dropped(2);
  EXPECT_THAT(Gemm({"stats"}).output,
              AllOf(HasSubstr("cuda:0: 150.0 us of 200.0 us measured in 7 launches, each off by "
                              "12.5 % on average"),
                    HasSubstr("cuda:0: 7 requests alone in 7 launches; 40 requests as rows in 3 "
                              "launches; late: 2 in the queue, 1 on the device"),
                    HasSubstr("9 products, 1 of them wrong, worst residual 12.5; 2 dropped, 0 not "
                              "verifiable")));
}

TEST_F(CliTest, EstimateComparesTheServerWithThisMachine) {
  v1::EstimateResponse& estimate = server_.estimate;
  estimate.set_kernel("sm90/x");
  estimate.set_plan("tile=128x256");
  estimate.set_receive_bytes(4 << 20);
  estimate.set_receive_us(4194);
  estimate.set_send_us(100);
  estimate.set_send_is_measured(true);
  estimate.set_queue_us(50);
  estimate.set_device_us(1000);
  estimate.set_flops(2e12);
  const std::vector<std::string> arguments = {
      "estimate",      "-s",           "8x16x32", "--type",        "bf16",
      "--transpose-b", "--cpu-gflops", "100",     "--probe-bytes", "0"};
  const ProcessResult human = Gemm(arguments);
  EXPECT_EQ(human.exit_code, 0) << human.error;
  EXPECT_THAT(human.output,
              AllOf(HasSubstr("sm90/x"), HasSubstr("4.0 MiB at 1 GB/s, which nobody measured"),
                    HasSubstr("as the server has measured"), HasSubstr("100.0 GFLOP/s, as given"),
                    HasSubstr("The server is faster: "), HasSubstr("20000000.0 us here")));
  EXPECT_EQ(server_.last_estimate.caller_gflops(), 100);
  const v1::MatmulHeader& header = server_.last_estimate.header();
  EXPECT_EQ(header.a().data().rows(), 8U);
  EXPECT_EQ(header.a().data().columns(), 32U);
  EXPECT_EQ(header.b().data().rows(), 16U);  // stored transposed
  EXPECT_EQ(header.b().data().columns(), 32U);
  EXPECT_EQ(header.b().data().type(), v1::BF16);

  std::vector<std::string> as_json = arguments;
  as_json.emplace_back("--json");
  const auto json = nlohmann::json::parse(Gemm(as_json).output);
  EXPECT_EQ(json["server"]["kernel"], "sm90/x");
  EXPECT_EQ(json["offload_is_faster"], true);
  EXPECT_EQ(json["upload_us"], 4194);
  EXPECT_EQ(json["cpu_us"], 2e7);
  EXPECT_GT(json["total_us"], 4194 + 100 + 50 + 1000);
}

TEST_F(CliTest, EstimateMeasuresThisMachine) {
  server_.estimate.set_flops(1e9);
  const auto json = nlohmann::json::parse(
      Gemm({"estimate", "-s", "8x8x8", "--probe-bytes", "0", "--json"}).output);
  EXPECT_GT(json["cpu"]["gflops"], 0);
  EXPECT_EQ(server_.last_estimate.caller_gflops(), json["cpu"]["gflops"]);
}

TEST_F(CliTest, EstimateRefusesWhatIsNoShape) {
  for (const char* shape : {"8x8", "8x8x8x8", "8xax8", "-1x2x3", ""}) {
    const ProcessResult result = Gemm({"estimate", std::string("--shape=") + shape});
    EXPECT_EQ(result.exit_code, 2) << shape;
  }
  EXPECT_THAT(Gemm({"estimate", "-s", "8x8"}).error, HasSubstr("it must be MxNxK"));
}

TEST_F(CliTest, EstimateNamesResidents) {
  ASSERT_EQ(Gemm({"estimate", "-s", "8x8x8", "--b", "@a1b2c3d4-7", "--cpu-gflops", "1",
                  "--probe-bytes", "0"})
                .exit_code,
            0);
  EXPECT_EQ(server_.last_estimate.header().b().handle(), "a1b2c3d4-7");
  EXPECT_FALSE(server_.last_estimate.header().b().has_data());
}

TEST_F(CliTest, StatsShowWhatWasDone) {
  v1::StatisticsResponse& statistics = server_.statistics;
  statistics.set_received_requests(9);
  (*statistics.mutable_finished_requests())["OK"] = 7;
  (*statistics.mutable_finished_requests())["INVALID_ARGUMENT"] = 2;
  v1::StageStatistics& stage = *statistics.add_stages();
  stage.set_name(v1::COPY_IN);
  stage.set_count(4);
  stage.set_sum_us(10);
  stage.set_max_us(6);

  const ProcessResult human = Gemm({"stats"});
  EXPECT_EQ(human.exit_code, 0) << human.error;
  EXPECT_THAT(human.output, AllOf(HasSubstr("9 received"), HasSubstr("2 INVALID_ARGUMENT"),
                                  HasSubstr("copy-in      4      2.5     6.0    10.0")));
  const auto json = nlohmann::json::parse(Gemm({"--json", "stats"}).output);
  EXPECT_EQ(json["finished_requests"]["OK"], 7);
  EXPECT_EQ(json["stages"][0]["name"], "copy_in");
  EXPECT_EQ(json["reserved_bytes"], 0);
}

TEST_F(CliTest, StatsShowWhoHoldsWhat) {
  const auto add = [this](v1::Holding::Party party, const char* name, std::uint64_t held) {
    v1::Holding& holding = *server_.statistics.add_holdings();
    holding.set_quantity("region_bytes");
    holding.set_party(party);
    holding.set_name(name);
    holding.set_held(held);
    return &holding;
  };
  add(v1::Holding::ALL, "", 3 << 20);
  add(v1::Holding::TENANT, "claimed:a", 1 << 20)->set_limit(4 << 20);
  const ProcessResult human = Gemm({"stats", "--holdings"});
  EXPECT_EQ(human.exit_code, 0) << human.error;
  EXPECT_EQ(server_.last_statistics.holders(), 5U);
  EXPECT_THAT(human.output,
              AllOf(HasSubstr("quantity      device  held by              held    limit   %"),
                    HasSubstr("region_bytes          all               3.0 MiB     none"),
                    HasSubstr("region_bytes          tenant claimed:a  1.0 MiB  4.0 MiB  25")))
      << human.output;
  EXPECT_EQ(Gemm({"stats", "--holdings", "100"}).exit_code, 0);
  EXPECT_EQ(server_.last_statistics.holders(), 100U);
  EXPECT_EQ(Gemm({"stats"}).exit_code, 0);
  EXPECT_EQ(server_.last_statistics.holders(), 0U);
  for (const char* bad : {"0", "101", "x"}) {
    EXPECT_EQ(Gemm({"stats", "--holdings", bad}).exit_code, 2) << bad;
  }
}

TEST_F(CliTest, StatsAreWatchedAsOftenAsAsked) {
  (*server_.statistics.mutable_refused_requests())["queue"] = 3;
  const ProcessResult twice = Gemm({"stats", "--watch", "1ms", "--count", "2"});
  EXPECT_EQ(twice.exit_code, 0) << twice.error;
  const std::size_t first = twice.output.find("3 for queue");
  EXPECT_NE(first, std::string::npos) << twice.output;
  EXPECT_NE(twice.output.find("3 for queue", first + 1), std::string::npos) << twice.output;
  const ProcessResult lines = Gemm({"--json", "stats", "--watch", "1ms", "--count", "3"});
  EXPECT_EQ(std::count(lines.output.begin(), lines.output.end(), '\n'), 3);
  EXPECT_EQ(Gemm({"stats", "--count", "2"}).exit_code, 2) << "without --watch";
}

// Where nobody looks at a terminal, one snapshot.
TEST_F(CliTest, TopPrintsOneSnapshotIntoAPipe) {
  server_.server_info.set_version("1.2.3");
  server_.statistics.mutable_uptime()->set_seconds(5);
  (*server_.statistics.mutable_finished_requests())["OK"] = 10;
  v1::TenantStatistics& tenant = *server_.statistics.add_tenants();
  tenant.set_tenant("alice");
  tenant.set_ok_requests(10);
  const ProcessResult result = Gemm({"top", "--interval", "1ms", "--sort", "requests"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, AllOf(HasSubstr("gemmd 1.2.3"), HasSubstr("OK 2.00"),
                                   HasSubstr("alice"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(Gemm({"--json", "top"}).exit_code, 2);
}

TEST_F(CliTest, KernelsAreListedAndExplained) {
  v1::Kernel& kernel = *server_.kernels.add_kernels();
  kernel.set_name("sm90/wgmma");
  kernel.set_unavailable_reason("needs sm_90");
  v1::Candidate& chosen = *server_.kernels.add_candidates();
  chosen.set_kernel("cpu/panel_f32");
  chosen.set_plan("rows=64");
  chosen.set_chosen(true);
  v1::Candidate& rejected = *server_.kernels.add_candidates();
  rejected.set_kernel("cpu/panel_f64");
  rejected.set_rejection("takes f64 operands");

  const ProcessResult list = Gemm({"kernels"});
  EXPECT_EQ(list.exit_code, 0) << list.error;
  EXPECT_THAT(list.output, AllOf(HasSubstr("sm90/wgmma"), HasSubstr("no: needs sm_90")));
  EXPECT_FALSE(server_.last_list_kernels.has_explain());

  const ProcessResult explanation =
      Gemm({"kernels", "--explain", "5", "6", "7", "--type", "bf16", "--output-type", "f32",
            "--transpose-b", "--determinism", "fast"});
  EXPECT_EQ(explanation.exit_code, 0) << explanation.error;
  EXPECT_THAT(explanation.output,
              AllOf(HasSubstr("chosen: rows=64"), HasSubstr("rejected: takes f64 operands")));
  const v1::ProblemShape& problem = server_.last_list_kernels.explain();
  EXPECT_EQ(problem.m(), 5U);
  EXPECT_EQ(problem.n(), 6U);
  EXPECT_EQ(problem.k(), 7U);
  EXPECT_EQ(problem.type(), v1::BF16);
  EXPECT_EQ(problem.output_type(), v1::F32);
  EXPECT_FALSE(problem.transpose_a());
  EXPECT_TRUE(problem.transpose_b());
  EXPECT_EQ(problem.determinism(), v1::FAST);

  const auto json =
      nlohmann::json::parse(Gemm({"kernels", "--explain", "5", "6", "7", "--json"}).output);
  EXPECT_EQ(json["candidates"][0]["chosen"], true);
  EXPECT_EQ(Gemm({"kernels", "--explain", "5", "6"}).exit_code, 2);
  EXPECT_EQ(Gemm({"kernels", "--type", "bf16"}).exit_code, 2);
}

TEST_F(CliTest, TuneSendsItsShapesAndShowsEachPlan) {
  v1::TunedShape& shape = *server_.tuned.add_shapes();
  v1::TunedCandidate& chosen = *shape.add_candidates();
  chosen.set_kernel("cpu/panel_bf16");
  chosen.set_plan("rows=64");
  chosen.set_measured_us(12.5);
  chosen.set_chosen(true);
  v1::TunedCandidate& rejected = *shape.add_candidates();
  rejected.set_kernel("cpu/panel_f64");
  rejected.set_rejection("takes f64 operands");
  *server_.tuned.add_shapes() = shape;

  const ProcessResult result = Gemm(
      {"tune", "5", "6", "7", "8", "9", "10", "--type", "bf16", "--transpose-b", "--repeats", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("8x9x10"), HasSubstr("12.5"), HasSubstr("chosen: rows=64"),
                    HasSubstr("rejected: takes f64 operands")));
  ASSERT_EQ(server_.last_tune.shapes_size(), 2);
  EXPECT_EQ(server_.last_tune.shapes(1).m(), 8U);
  EXPECT_EQ(server_.last_tune.shapes(1).k(), 10U);
  EXPECT_EQ(server_.last_tune.shapes(0).type(), v1::BF16);
  EXPECT_TRUE(server_.last_tune.shapes(0).transpose_b());
  EXPECT_EQ(server_.last_tune.repeats(), 3U);
  EXPECT_EQ(Gemm({"tune", "5", "6"}).exit_code, 2);
  EXPECT_EQ(Gemm({"tune"}).exit_code, 2);
}

TEST_F(CliTest, AdminErrorsHaveTheirExitCodes) {
  server_.admin_status = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not yours");
  for (const char* command : {"info", "stats", "kernels"}) {
    const ProcessResult result = Gemm({command});
    EXPECT_EQ(result.exit_code, 7);
    EXPECT_EQ(result.error,
              absl::StrCat("gemm: ", server_.target(), ": PERMISSION_DENIED: not yours\n"));
  }
}

TEST_F(CliTest, TheServerOptionComesBeforeTheEnvironment) {
  const ProcessResult result = Gemm({"info", "--server", "127.0.0.1:1", "--patience", "0"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.error, StartsWith("gemm: 127.0.0.1:1: UNAVAILABLE: "));
}

TEST_F(CliTest, AServerThatDoesNotAnswerIsToldAtOnceAndOnce) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"info"}, {"ls"}, {"matmul", a_, b_}, {"bench"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--server", "127.0.0.1:1", "--patience", "300ms"});
    const ProcessResult result = Gemm(words);
    EXPECT_EQ(result.exit_code, 5);
    const std::vector<std::string> lines = absl::StrSplit(result.error, '\n');
    ASSERT_EQ(lines.size(), 3U) << result.error;
    EXPECT_EQ(lines[0],
              "gemm: 127.0.0.1:1 does not answer (Connection refused); trying again for up to "
              "300ms");
    EXPECT_THAT(lines[1], StartsWith("gemm: 127.0.0.1:1: UNAVAILABLE: "));
    EXPECT_EQ(lines[2], "");
  }
  const ProcessResult result =
      Gemm({"info", "--server", "127.0.0.1:1", "--patience", "1m", "--timeout", "200ms"});
  EXPECT_THAT(result.error, HasSubstr("again for up to 200ms\n"));
  EXPECT_THAT(Gemm({"info", "--patience", "-1s"}).error, HasSubstr("'-1s' is no duration"));
}

TEST_F(CliTest, AServerIsNamedWithItsPort) {
  for (const char* server :
       {"", "gpu-node:", "gpu-node:0", "gpu-node:99999", "::1", "http://gpu-node", " gpu-node"}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"info"}, {"ls"}, {"matmul", a_, b_}}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--server", server});
      const ProcessResult result = Gemm(words);
      EXPECT_EQ(result.exit_code, 2) << server;
      EXPECT_THAT(result.error,
                  AllOf(StartsWith(absl::StrCat("gemm: usage: --server is \"", server, "\"")),
                        HasSubstr("a port of 1 to 65535")));
    }
  }
}

TEST_F(CliTest, ASchemeOfGrpcsOwnNamesAServerToo) {
  const std::string port = server_.target().substr(server_.target().rfind(':'));
  EXPECT_EQ(Gemm({"info", "--server", "dns:///localhost" + port}).exit_code, 0);
  EXPECT_EQ(Gemm({"info", "--server", "unix:/none/gemmd", "--patience", "0"}).exit_code, 5);
}

TEST_F(CliTest, LinesOfGrpcsLogAreForWhoAsks) {
  const std::vector<std::string> to_no_tls = {"info",  "--server",  server_.target(),
                                              "--tls", "--timeout", "2s"};
  const ProcessResult quiet = Gemm(to_no_tls);
  EXPECT_EQ(quiet.exit_code, 5);
  EXPECT_THAT(quiet.error, StartsWith("gemm: 127.0.0.1"));
  EXPECT_EQ(quiet.error.find('\n'), quiet.error.size() - 1) << quiet.error;
  std::vector<std::string> words = to_no_tls;
  words.insert(words.begin(), kBinary);
  EXPECT_THAT(RunProcess(words, {"GRPC_VERBOSITY=DEBUG"}).error, HasSubstr(".cc:"));
}

TEST_F(CliTest, NumbersAreCheckedHere) {
  const auto why = [this](const std::vector<std::string>& words) {
    const ProcessResult result = Gemm(words);
    EXPECT_EQ(result.exit_code, 2) << result.error;
    return result.error;
  };
  for (const char* word : {"abc", "nan", "inf", "1e999", ""}) {
    EXPECT_THAT(why({"matmul", a_, b_, "--alpha", word}),
                StartsWith(absl::StrCat("gemm: usage: --alpha: '", word,
                                        "' is no number, or not a "
                                        "finite one")));
  }
  EXPECT_THAT(why({"matmul", a_, b_, "--c", a_, "--beta", "x"}), HasSubstr("--beta: 'x' is no"));
  EXPECT_THAT(why({"kernels", "--explain", "0", "64", "64"}),
              HasSubstr("--explain: '0' is no whole number of 1 to 2147483647"));
  EXPECT_THAT(why({"tune", "8", "8", "2147483648"}),
              HasSubstr("'2147483648' is no whole number of 1 to 2147483647"));
  EXPECT_THAT(
      why({"estimate", "-s", "0x1x1"}),
      HasSubstr("--shape is \"0x1x1\"; it must be MxNxK, three numbers of 1 to 2147483647"));
  EXPECT_THAT(why({"bench", "-s", "0x1x1"}), HasSubstr("--shape is \"0x1x1\""));
}

TEST_F(CliTest, TlsIsOneOptionAway) {
  const load::CertifiedKey key = load::MakeSelfSigned("gemmd.test");
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({key.key, key.certificate});
  testing::ScriptedServer::Options options;
  options.credentials = grpc::SslServerCredentials(tls);
  testing::ScriptedServer server(options);
  server.server_info.set_version("1.2.3");
  const std::vector<std::string> arguments = {"info",
                                              "--server",
                                              server.target(),
                                              "--tls",
                                              "--tls-root-certs",
                                              directory_.File("root.pem", key.certificate),
                                              "--tls-server-name",
                                              "gemmd.test"};
  const ProcessResult result = Gemm(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("gemmd 1.2.3"));
  EXPECT_EQ(Gemm({"info", "--server", server.target()}).exit_code, 5);

  // Or in the environment.
  const std::vector<std::string> environment = {
      "GEMMD_SERVER=" + server.target(), "GEMMD_TLS=1",
      "GEMMD_TLS_ROOT_CERTS=" + directory_.Path("root.pem"), "GEMMD_TLS_SERVER_NAME=gemmd.test"};
  EXPECT_EQ(RunProcess({kBinary, "info"}, environment).exit_code, 0);
  EXPECT_THAT(RunProcess({kBinary, "info", "--tls-server-name", "else.test"}, environment).error,
              HasSubstr("has another name"));
  EXPECT_THAT(RunProcess({kBinary, "info", "--tls-client-cert", "x"}, environment).error,
              HasSubstr("--tls-client-cert requires --tls-client-key"));
}

TEST_F(CliTest, TheEnvironmentsClientCertificateIsShown) {
  const load::CertifiedKey key = load::MakeSelfSigned("gemmd.test");
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_key_cert_pairs.push_back({key.key, key.certificate});
  tls.pem_root_certs = key.certificate;
  testing::ScriptedServer::Options options;
  options.credentials = grpc::SslServerCredentials(tls);
  testing::ScriptedServer server(options);
  const std::string certificate = directory_.File("client.pem", key.certificate);
  const std::vector<std::string> info = {kBinary,     "info",
                                         "--server",  server.target(),
                                         "--tls",     "--tls-root-certs",
                                         certificate, "--tls-server-name",
                                         "gemmd.test"};
  const ProcessResult without = RunProcess(info);
  EXPECT_EQ(without.exit_code, 5);
  EXPECT_THAT(without.error, HasSubstr("or a client certificate"));
  EXPECT_EQ(RunProcess(info, {"GEMMD_TLS_CLIENT_CERT=" + certificate,
                              "GEMMD_TLS_CLIENT_KEY=" + directory_.File("client.key", key.key)})
                .exit_code,
            0);
}

TEST_F(CliTest, ATokenIsNotSentInPlainTextUnlessThatIsAskedFor) {
  const std::string token = directory_.File("token", "abc\n");
  const auto info = [&](const std::string& server, const std::string& file) {
    return std::vector<std::string>{"info", "--server",   server, "--token-file",
                                    file,   "--patience", "1ms"};
  };
  const ProcessResult refused = Gemm(info("example.invalid:1", token));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, HasSubstr("--token-file would be sent to example.invalid:1 in plain"));
  std::vector<std::string> words = info("example.invalid:1", token);
  words.emplace_back("--plaintext-token");
  EXPECT_EQ(Gemm(words).exit_code, 5);
  EXPECT_EQ(Gemm(info(server_.target(), token)).exit_code, 0);
  const ProcessResult none = Gemm(info(server_.target(), directory_.File("none", "a b\n")));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.error, HasSubstr("which holds no token"));
}

TEST_F(CliTest, EveryHelpHasExamplesAndExitCodes) {
  const std::vector<std::vector<std::string>> commands = {
      {"--help"},          {"matmul", "--help"},        {"info", "--help"},
      {"stats", "--help"}, {"kernels", "--help"},       {"completion", "--help"},
      {"bench", "--help"}, {"bench", "diff", "--help"}, {"top", "--help"}};
  for (const auto& command : commands) {
    const ProcessResult result = Gemm(command);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.error, "");
    EXPECT_THAT(result.output, AllOf(HasSubstr("Examples:\n"), HasSubstr("Exit codes:\n"),
                                     HasSubstr("\n  7  not allowed")))
        << command[0];
  }
}

TEST_F(CliTest, VersionAndUsage) {
  EXPECT_EQ(Gemm({"--version"}).output, "gemm 0.2.0\n");
  const ProcessResult none = Gemm({});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(none.error, "gemm: usage: A subcommand is required (see gemm --help)\n");
  const ProcessResult unknown = Gemm({"multiply", "a", "b"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.error,
              AllOf(StartsWith("gemm: usage: \"multiply\" is no subcommand; it must be one of "),
                    HasSubstr("matmul, info"), HasSubstr("(see gemm --help)\n")));
  EXPECT_THAT(Gemm({"--fast"}).error, HasSubstr("there is no option --fast"));
  const auto json = nlohmann::json::parse(Gemm({"--json", "multiply"}).output);
  EXPECT_EQ(json["error"]["exit_code"], 2);
  EXPECT_EQ(json["error"]["what"], "usage");
}

TEST_F(CliTest, OutputThatCannotBeWrittenIsAnError) {
  const ProcessResult result =
      RunProcess({"bash", "-c", absl::StrCat(kBinary, " completion bash > /dev/full")});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.error, "gemm: standard output: cannot be written\n");
}

class CompletionTest : public CliTest {
 protected:
  // Returns what bash offers for the last of `words`.
  std::string Complete(const std::string& words) {
    const std::string script = directory_.File("script", Gemm({"completion", "bash"}).output);
    const ProcessResult result = RunProcess(
        {"bash", "-c",
         absl::StrCat("source ", script, "; COMP_WORDS=(gemm ", words,
                      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gemm; echo ${COMPREPLY[@]}")});
    EXPECT_EQ(result.error, "");
    return result.output;
  }
};

TEST_F(CompletionTest, BashTakesTheScript) {
  const std::string script = directory_.File("script", Gemm({"completion", "bash"}).output);
  const ProcessResult result = RunProcess({"bash", "-n", script});
  EXPECT_EQ(result.exit_code, 0) << result.error;
}

TEST_F(CompletionTest, OffersWhatTheCommandLineTakes) {
  EXPECT_EQ(Complete("ma"), "matmul\n");
  EXPECT_EQ(Complete("completion ''"),
            "-h --help bash zsh --version --server --servers --affinity-header --timeout "
            "--patience --json --tenant --token-file --plaintext-token "
            "--tls --tls-root-certs --tls-client-cert --tls-client-key "
            "--tls-server-name\n");
  EXPECT_EQ(Complete("matmul --activation ''"), "none relu gelu-tanh silu\n");
  EXPECT_EQ(Complete("--server x matmul a.npy --transpose"), "--transpose-a --transpose-b\n");
  EXPECT_EQ(Complete("kernels --determinism f"), "fast\n");
  EXPECT_EQ(Complete("matmul --output ''"), "\n");
  EXPECT_EQ(Complete("bench --arrivals ''"), "poisson constant\n");
  EXPECT_EQ(Complete("bench d"), "diff\n");
  EXPECT_EQ(Complete("put --l"), "--lease\n");
  EXPECT_EQ(Complete("bench e"), "\n");  // echo-server is the command's own
}

TEST_F(CompletionTest, ZshHasTheSameWords) {
  const std::string script = Gemm({"completion", "zsh"}).output;
  EXPECT_THAT(
      script,
      AllOf(StartsWith("#compdef gemm\n"),
            HasSubstr("'matmul --activation') choices=(none relu gelu-tanh silu)"),
            HasSubstr("matmul|info|health|drain|servers|stats|top|trace|kernels|estimate|tune|"
                      "bench|quantize|weights|put|get|ls|name|rm|completion)")));
}

}  // namespace
}  // namespace gemmd::cli
