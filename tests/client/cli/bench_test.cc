#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "tests/client/cli/cli_fixture.h"

namespace gemmd::cli {
namespace {

using ::gemmd::testing::ProcessResult;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Loads are schedules of which everything is due at once: a run takes no longer than its
// answers.
class BenchTest : public CliTest {
 protected:
  BenchTest() { server_.server_info.set_version("1.2.3"); }

  ProcessResult Bench(int requests, std::vector<std::string> more = {}) {
    std::string schedule;
    for (int i = 0; i < requests; ++i) absl::StrAppend(&schedule, "0\n");
    std::vector<std::string> words = {"bench", "--replay",      directory_.File("t", schedule),
                                      "-s",    "2x2x2",         "--type",
                                      "int8",  "--output-type", "int8"};
    words.insert(words.end(), more.begin(), more.end());
    return Gemm(words);
  }

  void AnswerTimes(int count) {
    for (int i = 0; i < count; ++i) server_.Then(testing::Answer(2, 2, "abcd"));
  }

  void FailTimes(int count) {
    for (int i = 0; i < count; ++i) {
      server_.Then(testing::Fail(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full"));
    }
  }
};

TEST_F(BenchTest, PrintsATableWithStagesAndErrors) {
  AnswerTimes(20);
  FailTimes(2);
  const ProcessResult result = Bench(22);
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output,
              AllOf(StartsWith("load "), HasSubstr("\nreplay of 22 "), HasSubstr("p99.9 ms"),
                    HasSubstr("\ncompute "), HasSubstr("2 RESOURCE_EXHAUSTED: the queue is full"),
                    HasSubstr("p99.9 of 20 answers")));
  EXPECT_THAT(absl::StrCat(result.output, result.error), Not(HasSubstr("\x1b")));  // no terminal
}

TEST_F(BenchTest, JsonHasEverything) {
  AnswerTimes(20);
  const ProcessResult result = Bench(20, {"--json", "-q"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.error, "");
  const auto report = nlohmann::json::parse(result.output);
  EXPECT_EQ(report["format"], "gemm-bench");
  EXPECT_EQ(report["server"]["version"], "1.2.3");
  EXPECT_EQ(report["workload"][0]["name"], "2x2x2 int8");
  EXPECT_EQ(report["points"][0]["ok"], 20);
  EXPECT_EQ(report["points"][0]["entries"]["2x2x2 int8"], 20);
  EXPECT_THAT(report["command"].get<std::string>(), HasSubstr("bench --replay"));
}

TEST_F(BenchTest, FilesAndCsvComeFromOneRun) {
  AnswerTimes(20);
  const std::string saved = directory_.Path("r.json");
  const std::string page = directory_.Path("r.html");
  const ProcessResult result = Bench(20, {"--csv", "-q", "--save", saved, "--html", page});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, AllOf(StartsWith("load,seconds,"), HasSubstr("\nreplay of 20,")));
  EXPECT_THAT(testing::FileBytes(page), AllOf(StartsWith("<!doctype html>"), HasSubstr("<svg")));
  const ProcessResult same = Gemm({"bench", "diff", saved, saved});
  EXPECT_EQ(same.exit_code, 0) << same.error;
  EXPECT_THAT(same.output, AllOf(HasSubstr("replay of 20  p99 ms"), Not(HasSubstr("worse"))));
  const auto json = nlohmann::json::parse(Gemm({"bench", "diff", saved, saved, "--json"}).output);
  EXPECT_EQ(json["changes"].size(), 11U);
}

TEST_F(BenchTest, StandardOutputHasOneThing) {
  for (const char* option : {"--save", "--histogram"}) {
    AnswerTimes(20);
    const ProcessResult result = Bench(20, {"-q", option, "-"});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_THAT(result.error, AllOf(StartsWith("load "), HasSubstr("\nreplay of 20 ")));
    EXPECT_THAT(result.output, Not(HasSubstr("load ")));
    if (option == absl::string_view("--save")) {
      EXPECT_EQ(nlohmann::json::parse(result.output)["points"][0]["ok"], 20);
    }
  }
  EXPECT_THAT(Bench(1, {"--save", "-", "--json"}).error, HasSubstr("both want standard output"));
  EXPECT_THAT(Bench(1, {"--save", "-", "--html", "/dev/stdout"}).error,
              HasSubstr("--save and --html both want standard output"));
  EXPECT_EQ(server_.requests().size(), 40U);
}

TEST_F(BenchTest, WrongProductsFailTheCommand) {
  AnswerTimes(5);
  const ProcessResult result = Bench(5, {"--verify-fraction", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("5 products verified, 5 wrong"));
  EXPECT_THAT(result.error, HasSubstr("5 of 5 verified products are wrong: row "));
  AnswerTimes(5);
  const auto report =
      nlohmann::json::parse(Bench(5, {"--verify-fraction", "1", "--json"}).output);  // one object
  EXPECT_EQ(report["points"][0]["wrong"], 5);
  EXPECT_EQ(report["error"]["exit_code"], 1);
}

TEST_F(BenchTest, ALoadThatNothingAnswersFailsTheCommand) {
  const ProcessResult result = Bench(5);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("5 INTERNAL: the test's script has no more steps"));
  EXPECT_THAT(result.error, HasSubstr("INTERNAL: no request was answered with OK"));
}

TEST_F(BenchTest, ARunOfWhichTooManyFailedFailsTheJob) {
  const auto run = [this](int ok, int failed, const std::vector<std::string>& more = {}) {
    AnswerTimes(ok);
    FailTimes(failed);
    return Bench(ok + failed, more);
  };
  const ProcessResult result = run(18, 6);
  EXPECT_EQ(result.exit_code, 9);
  EXPECT_THAT(result.error, HasSubstr("replay of 24: 25% of the requests failed, at most 10% may"));
  EXPECT_THAT(result.output, HasSubstr("\nfailed: replay of 24: 25% of the requests failed"));
  EXPECT_EQ(run(18, 6, {"--fail-on", "failed>25%"}).exit_code, 0);
  EXPECT_EQ(run(23, 1, {"--fail-on", "failed>1%"}).exit_code, 9);
  EXPECT_EQ(run(11, 13, {"--fail-on", "failed>99%"}).exit_code, 9);
  const auto report = nlohmann::json::parse(run(12, 12, {"--json", "-q"}).output);
  EXPECT_EQ(report["error"]["exit_code"], 9);
  EXPECT_EQ(report["failed"].size(), 1U);
}

TEST_F(BenchTest, AConditionThatHoldsFailsTheJob) {
  AnswerTimes(20);
  const ProcessResult result =
      Bench(20, {"--fail-on", "p99>1ns,max>1h", "--fail-on", "throughput<1000000000"});
  EXPECT_EQ(result.exit_code, 8);
  EXPECT_THAT(result.error, HasSubstr("replay of 20: p99 is "));
  EXPECT_THAT(result.error, HasSubstr(", and p99>1ns fails; and 1 more\n"));
  AnswerTimes(20);
  EXPECT_EQ(Bench(20, {"--fail-on", "p99>1h,failed>0"}).exit_code, 0);
}

TEST_F(BenchTest, ASearchThatFindsNoRateFailsTheJob) {
  const std::vector<std::string> words = {
      "bench", "-s",         "2x2x2", "--type", "int8",  "-r",      "2000",          "--warm-up",
      "1ms",   "--duration", "10ms",  "-q",     "--slo", "p50=1ns", "--output-type", "int8"};
  AnswerTimes(200);  // of the first trials; later ones fail
  const ProcessResult result = Gemm(words);
  EXPECT_EQ(result.exit_code, 8) << result.output;
  EXPECT_THAT(result.error, HasSubstr("no rate holds (p50=1ns): "));
}

// Scales the figure of a saved report's point.
std::string Scaled(const std::string& report, const char* pointer, double by) {
  auto json = nlohmann::json::parse(report);
  auto& figure = json["points"][0][nlohmann::json::json_pointer(pointer)];
  figure = figure.get<double>() * by;
  json["points"][0].erase("resamples");
  return json.dump();
}

TEST_F(BenchTest, ADifferenceForTheWorseFailsTheJob) {
  AnswerTimes(20);
  const std::string before = directory_.Path("before.json");
  ASSERT_EQ(Bench(20, {"-q", "--save", before}).exit_code, 0);
  const std::string bytes = testing::FileBytes(before);
  const std::string slow = directory_.File("slow.json", Scaled(bytes, "/latency_us/p99", 12.04));
  const std::string quick = directory_.File("quick.json", Scaled(bytes, "/latency_us/p99", 0.5));
  const ProcessResult result = Gemm({"bench", "diff", before, slow});
  EXPECT_EQ(result.exit_code, 8);
  EXPECT_THAT(result.error, HasSubstr("gemm: diff: replay of 20: p99 ms is worse: +1104.0%"));
  EXPECT_THAT(result.output, HasSubstr("warning: before, replay of 20: p99.9 of 20 answers"));
  EXPECT_EQ(Gemm({"bench", "diff", before, quick}).exit_code, 0);
  const auto code = [&](const char* condition) {
    return Gemm({"bench", "diff", before, slow, "--fail-on", condition}).exit_code;
  };
  EXPECT_EQ(code("p50>+10%"), 0);
  EXPECT_EQ(code("p99>+1000%"), 8);
  EXPECT_EQ(code("p99>+2000%"), 0);
  EXPECT_EQ(code("p99>1ns"), 8);
  EXPECT_EQ(code("p99>10%"), 2);
  const auto json = nlohmann::json::parse(Gemm({"bench", "diff", before, slow, "--json"}).output);
  EXPECT_EQ(json["error"]["exit_code"], 8);
  // Nothing was compared: that is no success.
  AnswerTimes(10);
  const std::string other = directory_.Path("other.json");
  ASSERT_EQ(Bench(10, {"-q", "--save", other}).exit_code, 0);
  EXPECT_EQ(Gemm({"bench", "diff", before, other}).exit_code, 3);
}

TEST_F(BenchTest, ServersTakeTurns) {
  testing::ScriptedServer second;
  second.server_info.set_version("1.2.4");
  for (int i = 0; i < 100; ++i) second.Then(testing::Answer(2, 2, "abcd"));
  AnswerTimes(100);
  const ProcessResult result =
      Bench(20, {"--against", second.target(), "--rounds", "5", "--json", "-q"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(server_.requests().size(), 100U);
  EXPECT_EQ(second.requests().size(), 100U);
  const auto report = nlohmann::json::parse(result.output);
  ASSERT_EQ(report["points"].size(), 2U);
  EXPECT_EQ(report["points"][0]["server"], server_.target());
  EXPECT_EQ(report["points"][1]["server"], second.target());
  EXPECT_EQ(report["points"][1]["ok"], 100);
  EXPECT_EQ(report["points"][1]["resamples"]["blocks"], 5);
  EXPECT_EQ(report["servers"][1]["version"], "1.2.4");
  const auto& comparison = report["comparisons"][0];
  EXPECT_EQ(comparison["before"], server_.target());
  EXPECT_EQ(comparison["after"], second.target());
  EXPECT_EQ(comparison["changes"].size(), 11U);
  EXPECT_EQ(comparison["changes"][0]["interval"].size(), 2U);
}

TEST_F(BenchTest, AServerMayTakeTurnsWithItself) {
  AnswerTimes(300);
  const std::string histogram = directory_.Path("h.hgrm");
  const ProcessResult result =
      Bench(20, {"--against", absl::StrCat(server_.target(), ",", server_.target()), "--rounds",
                 "5", "--json", "-q", "--histogram", histogram});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const auto report = nlohmann::json::parse(result.output);
  const std::string of_first =
      absl::StrCat("h-replay-of-20-on-", absl::StrReplaceAll(server_.target(), {{":", "-"}}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(report["points"][i]["server"],
              absl::StrCat(server_.target(), i == 0 ? "" : absl::StrCat("#", i + 1)));
    const std::string name = absl::StrCat(of_first, i == 0 ? "" : absl::StrCat("-", i + 1));
    EXPECT_THAT(testing::FileBytes(directory_.Path(name + ".hgrm")), HasSubstr("Total count"));
  }
}

TEST_F(BenchTest, AConditionOnAChangeIsOfTheTurns) {
  testing::ScriptedServer second;
  for (int i = 0; i < 150; ++i) {
    second.Then(i % 2 == 0 ? testing::Answer(2, 2, "abcd")
                           : testing::Fail(grpc::StatusCode::RESOURCE_EXHAUSTED, "full"));
  }
  AnswerTimes(150);
  const ProcessResult result = Bench(30, {"--against", second.target(), "--rounds", "5", "-q",
                                          "--fail-on", "failed>60%,failed>+10%"});
  EXPECT_EQ(result.exit_code, 9);
  EXPECT_THAT(result.error, HasSubstr("failed is +50.00 points"));
  EXPECT_THAT(result.output, HasSubstr("+50.00 points"));
}

TEST_F(BenchTest, EveryRequestAndTheDistributionGoToFiles) {
  AnswerTimes(20);
  const std::string samples = directory_.Path("s.csv");
  const std::string histogram = directory_.Path("h.hgrm");
  const ProcessResult result = Bench(20, {"-q", "--samples", samples, "--histogram", histogram});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const std::string text = testing::FileBytes(samples);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21);
  EXPECT_THAT(text, HasSubstr("\nreplay of 20,2x2x2 int8,0.000000000,"));
  EXPECT_THAT(testing::FileBytes(histogram), HasSubstr("Total count    =           20]"));
}

TEST_F(BenchTest, MeasuresItselfAgainstAnEcho) {
  const ProcessResult result = Gemm({"bench", "--null", "1000", "-c", "4", "--warm-up", "1ms",
                                     "--duration", "250ms", "--json", "-q"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const auto point = nlohmann::json::parse(result.output)["points"][0];
  EXPECT_GT(point["ok"], 0);
  EXPECT_EQ(point["ok"], point["requests"]);
}

// Two in flight wait for each other: the echo works on one request at a time.
TEST_F(BenchTest, AnEchoThatWorksTakesAtLeastThatLong) {
  const ProcessResult result = Gemm({"bench", "--null", "1000", "--null-work", "20ms", "--replay",
                                     directory_.File("t", "0\n0\n0\n0\n0\n"), "--json", "-q"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const auto point = nlohmann::json::parse(result.output)["points"][0];
  EXPECT_EQ(point["ok"], 5);
  EXPECT_GE(point["latency_us"]["min"], 20e3);
  // One at a time.
  EXPECT_GE(point["latency_us"]["max"], 5 * 20e3);
}

TEST_F(BenchTest, TheCeilingMovesTheSameBytes) {
  AnswerTimes(20);
  const ProcessResult result = Bench(20, {"--ceiling", "--warm-up", "1ms", "--window", "250ms",
                                          "--max-windows", "3", "--json", "-q"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const auto ceiling = nlohmann::json::parse(result.output)["ceiling"];
  EXPECT_EQ(ceiling["concurrency"], 64);
  EXPECT_GT(ceiling["requests_per_s"], 0);
  EXPECT_GT(ceiling["ratio"], 0);
}

TEST_F(BenchTest, AnInterruptEndsItWithWhatThereIs) {
  const std::string log = directory_.Path("log");
  const ProcessResult result = testing::RunProcess(
      {"bash", "-c",
       absl::StrCat(kBinary, " bench --null 1000 --warm-up 1ms --duration 60s 2> ", log,
                    " & until grep -qs measure ", log,
                    "; do sleep 0.05; done; kill -INT $!; wait $!")});
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.output, StartsWith("load "));
  EXPECT_THAT(testing::FileBytes(log),
              HasSubstr("gemm: interrupted: the report has what was measured until then\n"));
}

TEST_F(BenchTest, Fp8IsATypeOfOperands) {
  for (const char* type : {"fp8-e4m3", "fp8_e5m2"}) {
    server_.Then(testing::Answer(2, 2, "abcd"));
    const ProcessResult result =
        Gemm({"bench", "--replay", directory_.File("t", "0\n"), "-s", "2x2x2", "--type", type});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(server_.requests().back().header().a().data().type(),
              type[4] == 'e' && type[5] == '4' ? v1::FP8_E4M3 : v1::FP8_E5M2);
  }
}

TEST_F(BenchTest, AServerThatSharesNoMemoryIsNoWrongCommandLine) {
  const ProcessResult result = Gemm({"bench", "-s", "2x2x2", "--operands", "shared-memory"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.error, AllOf(StartsWith(absl::StrCat("gemm: ", server_.target(), ": ")),
                                  HasSubstr("2x2x2 f32:")));
}

TEST_F(BenchTest, RefusalsNameTheOption) {
  const auto why = [this](std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    const ProcessResult result = Gemm(words);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    return result.error;
  };
  EXPECT_THAT(why({"-c", "0"}), HasSubstr("--concurrency"));
  server_.server_info.mutable_limits()->set_calls_per_connection(24);
  EXPECT_THAT(why({"--streams", "25"}),
              HasSubstr("--streams is 25, and the server takes 24 calls"));
  EXPECT_THAT(why({"-c", "1", "-r", "5"}), HasSubstr("excludes"));
  EXPECT_THAT(why({"-s", "2x2"}), HasSubstr("--shape is \"2x2\""));
  EXPECT_THAT(why({"--operands", "kept"}), HasSubstr("operands is \"kept\""));
  EXPECT_THAT(why({"--slo", "p98=1ms"}), HasSubstr("--slo: \"p98=1ms\""));
  EXPECT_THAT(why({"--workload", "x", "-s", "1x1x1"}), HasSubstr("--workload has all"));
  EXPECT_THAT(why({"--null", "5", "-s", "1x1x1"}), HasSubstr("--null sends bytes"));
  EXPECT_THAT(why({"--null-work", "1ms"}), HasSubstr("--null"));
  EXPECT_THAT(why({"--null", "5", "--null-work", "1ms", "--call", "stream"}),
              HasSubstr("--null-work is for unary calls"));
  EXPECT_THAT(why({"--find-knee", "-c", "4"}), HasSubstr("take one --rate"));
  EXPECT_THAT(why({"--slo", "p99=1ms", "-r", "4,5"}), HasSubstr("take one --rate"));
  EXPECT_THAT(why({"--csv", "--json"}), HasSubstr("exclude each other"));
  EXPECT_THAT(why({"--verify-fraction", "2"}), HasSubstr("--verify-fraction"));
  EXPECT_THAT(why({"--fail-on", "p98>1ms"}), HasSubstr("--fail-on: \"p98>1ms\" names no figure"));
  EXPECT_THAT(why({"--fail-on", "p99>+10%"}), HasSubstr("is a change: only what compares"));
  EXPECT_THAT(why({"--samples", "s.txt"}), HasSubstr("s.txt: must end in .csv or .jsonl"));
  EXPECT_THAT(why({"--rounds", "5"}), HasSubstr("--against"));
  EXPECT_THAT(why({"--against", "x:1", "--slo", "p99=1ms"}), HasSubstr("excludes"));
  EXPECT_THAT(why({"--explain", "--fail-on", "p99>1ms"}), HasSubstr("--explain sends no load"));
}

TEST_F(BenchTest, BadFilesAreNamedWithTheirLine) {
  const std::string bad = directory_.File("bad", "request {\n  m: x\n}");
  const ProcessResult workload = Gemm({"bench", "--workload", bad});
  EXPECT_EQ(workload.exit_code, 3);
  EXPECT_THAT(workload.error, HasSubstr(absl::StrCat(bad, ": 2:")));
  const ProcessResult schedule = Gemm({"bench", "--replay", bad});
  EXPECT_EQ(schedule.exit_code, 3);
  EXPECT_THAT(schedule.error, HasSubstr("line 1 is "));
  const ProcessResult report = Gemm({"bench", "diff", bad, bad});
  EXPECT_EQ(report.exit_code, 3);
  EXPECT_THAT(report.error, HasSubstr("is no report of gemm bench"));
}

}  // namespace
}  // namespace gemmd::cli
