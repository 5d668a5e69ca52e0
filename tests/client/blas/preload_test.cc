// libgemmd_blas.so in a process of its own, before a server on the CPU that is there, is not,
// fails, is silent or ends: every result is right, and each call that is computed here has its
// reason.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/certificates.h"
#include "tests/testing/server_process.h"
#include "tests/testing/token_entry.h"

namespace gemmd::blas {
namespace {

std::string At(const std::string& path) { return std::filesystem::absolute(path); }

// A process of caller.cc, with the library preloaded.
class Caller {
 public:
  // The settings go before its own environment: "GEMMD_BLAS_MODE=always".
  explicit Caller(std::vector<std::string> settings) {
    settings.push_back("LD_PRELOAD=" + At("client/blas/libgemmd_blas.so"));
    settings.push_back("GEMMD_LIBRARY=" + At("client/c/libgemmd.so.0"));
    // No answer is too late on a busy machine, unless a test says so.
    settings.emplace_back("GEMMD_BLAS_LIMIT_MS=3600000");
    std::vector<char*> environment;
    for (std::string& each : settings) environment.push_back(each.data());
    for (char** each = environ; *each != nullptr; ++each) environment.push_back(*each);
    environment.push_back(nullptr);
    int in[2];
    int out[2];
    EXPECT_EQ(0, pipe2(in, O_CLOEXEC));
    EXPECT_EQ(0, pipe2(out, O_CLOEXEC));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error_.c_str(), O_WRONLY | O_APPEND,
                                     0);
    std::string program = "tests/client/blas/caller";
    std::string plain = At("tests/client/blas/libplain_blas.so");
    char* const arguments[] = {program.data(), plain.data(), nullptr};
    EXPECT_EQ(
        0, posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environment.data()));
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    in_ = fdopen(in[1], "w");
    out_ = fdopen(out[0], "r");
  }
  ~Caller() {
    if (pid_ > 0) End();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void Order(const std::string& command) {
    std::fprintf(in_, "%s\n", command.c_str());
    std::fflush(in_);
  }
  std::string Line() {
    std::string line;
    for (int c = std::fgetc(out_); c != '\n' && c != EOF; c = std::fgetc(out_)) {
      line += static_cast<char>(c);
    }
    return line;
  }
  // Reads on to that line; false where another answer or the end comes first.
  bool Await(const std::string& wanted) {
    for (std::string line = Line();; line = Line()) {
      if (line == wanted) return true;
      if (line.rfind("at ", 0) != 0) return false;
    }
  }
  // The answer to a command, without the lines that say how far it is.
  std::string Answer() {
    for (std::string line = Line();; line = Line()) {
      if (line.rfind("at ", 0) != 0) return line;
    }
  }
  std::string Ask(const std::string& command) {
    Order(command);
    return Answer();
  }

  // Ends it as a program ends, and returns what it said on standard error.
  std::string End() {
    std::fclose(in_);
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_EQ(0, status) << "it did not end as a program does";
    pid_ = -1;
    std::fclose(out_);
    return testing::FileBytes(error_);
  }

 private:
  const testing::TemporaryDirectory directory_;
  const std::string error_ = directory_.File("error", "");
  pid_t pid_ = -1;
  std::FILE* in_ = nullptr;
  std::FILE* out_ = nullptr;
};

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// Rows of the report with one blank between columns.
std::string Squeezed(std::string text) {
  const auto end =
      std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; });
  text.erase(end, text.end());
  return text;
}

std::string Server(const std::string& address) { return "GEMMD_SERVER=" + address; }
const char kAlways[] = "GEMMD_BLAS_MODE=always";
const char kReport[] = "GEMMD_BLAS_REPORT=1";

// A port of loopback that nobody listens on.
const char kNobody[] = "127.0.0.1:1";

class PreloadTest : public ::testing::Test {
 protected:
  static std::vector<std::string> Flags() { return {"--cpu.threads=2"}; }

  std::unique_ptr<testing::ServerProcess> server_ =
      std::make_unique<testing::ServerProcess>(Flags());
};

TEST_F(PreloadTest, EveryProductGoesThere) {
  Caller caller({Server(server_->address()), kAlways, kReport});
  EXPECT_EQ("right 700, here 0", caller.Ask("products 700"));
  const std::string said = caller.End();
  EXPECT_NE(std::string::npos, Squeezed(said).find("\ndgemm 32 server 6 6 ")) << said;
  // 600 gemms, and the squares of a hundred rank updates.
  EXPECT_NE(std::string::npos, said.find("gemmd_blas: the server computed 1076 products\n"))
      << said;
}

TEST_F(PreloadTest, ABatchIsOneRequest) {
  Caller caller({Server(server_->address()), kAlways, kReport});
  EXPECT_EQ("right 30, here 0", caller.Ask("batches 30"));
  EXPECT_NE(std::string::npos, caller.End().find("gemmd_blas: the server computed 120 products\n"));
}

// One in three of them by the function that this machine has, the others product by product.
TEST_F(PreloadTest, ABatchIsComputedHereByWhatThereIs) {
  Caller caller({Server(server_->address()), "GEMMD_BLAS_MODE=never"});
  EXPECT_EQ("right 30, here 90", caller.Ask("batches 30"));
}

TEST_F(PreloadTest, CallsThatAreNoProductsGoToThisMachine) {
  Caller caller({Server(server_->address()), kAlways, kReport});
  EXPECT_EQ("edges right 7, refused 4", caller.Ask("edges"));
  EXPECT_NE(std::string::npos, Squeezed(caller.End()).find("\ndgemm 1 here: no product 5 0 "));
}

// A program that is small all along pays for nothing: no library, no thread.
TEST_F(PreloadTest, SmallCallsOpenNothing) {
  Caller caller({Server(server_->address())});
  EXPECT_EQ("right 700, here 600", caller.Ask("products 700"));
  EXPECT_EQ("libgemmd no, threads 1", caller.Ask("loaded"));
  EXPECT_EQ("", caller.End());
}

TEST_F(PreloadTest, NeverMeansNever) {
  Caller caller({Server(server_->address()), "GEMMD_BLAS_MODE=never"});
  EXPECT_EQ("right 1, here 1", caller.Ask("large 1 300"));
  EXPECT_EQ("libgemmd no, threads 1", caller.Ask("loaded"));
  EXPECT_EQ("", caller.End());
}

TEST_F(PreloadTest, AModeThatIsNoneIsToldOfAndComputesHere) {
  Caller caller({Server(server_->address()), "GEMMD_BLAS_MODE=sometimes"});
  EXPECT_EQ("right 2, here 2", caller.Ask("large 2 300"));
  EXPECT_EQ(
      "gemmd_blas: GEMMD_BLAS_MODE is \"sometimes\": it must be auto, always or never; all is "
      "computed here\n",
      caller.End());
}

TEST_F(PreloadTest, WithoutAServersAddressAllIsHereAndSaidOnce) {
  Caller caller({kAlways});
  EXPECT_EQ("right 70, here 60", caller.Ask("products 70"));
  EXPECT_EQ("gemmd_blas: GEMMD_SERVER is not set: all is computed here\n", caller.End());
}

TEST_F(PreloadTest, WithoutTheLibraryAllIsHereAndSaidOnce) {
  Caller caller({Server(server_->address()), kAlways, "GEMMD_LIBRARY=/nowhere/libgemmd.so.0"});
  EXPECT_EQ("right 70, here 60", caller.Ask("products 70"));
  const std::string said = caller.End();
  EXPECT_EQ(1, Count(said, "gemmd_blas: ")) << said;
  EXPECT_NE(std::string::npos, said.find("/nowhere/libgemmd.so.0")) << said;
}

TEST_F(PreloadTest, AServerThatIsGoneIsSaidOnce) {
  Caller caller({Server(kNobody), kAlways});
  EXPECT_EQ("right 700, here 600", caller.Ask("products 700"));
  const std::string said = caller.End();
  EXPECT_EQ(1, Count(said, "gemmd_blas: ")) << said;
  EXPECT_NE(std::string::npos, said.find("127.0.0.1:1: UNAVAILABLE: ")) << said;
}

TEST_F(PreloadTest, AKernelThatTheServerDoesNotHave) {
  Caller caller({Server(server_->address()), kAlways, kReport, "GEMMD_BLAS_KERNEL=sm90/imagined"});
  // Products of f64 and complex ones of f64 are not asked for by that name, and go there.
  EXPECT_EQ("right 700, here 300", caller.Ask("products 700"));
  const std::string said = caller.End();
  EXPECT_EQ(1, Count(said, "FAILED_PRECONDITION: kernel is \"sm90/imagined\"")) << said;
  EXPECT_NE(std::string::npos, said.find("here: server refused")) << said;
}

TEST_F(PreloadTest, AServerThatIsKilledInTheMiddle) {
  Caller caller({Server(server_->address()), kAlways, kReport});
  caller.Order("products 2100");
  ASSERT_TRUE(caller.Await("at 500"));
  server_->Signal(SIGKILL);
  EXPECT_EQ(0U, caller.Answer().rfind("right 2100, here ", 0));
  EXPECT_EQ("right 70, here 60", caller.Ask("products 70"));
  EXPECT_EQ(1, Count(caller.End(), ": UNAVAILABLE: "));
}

TEST_F(PreloadTest, AServerThatDrainsInTheMiddle) {
  Caller caller({Server(server_->address()), kAlways});
  caller.Order("products 2100");
  ASSERT_TRUE(caller.Await("at 500"));
  server_->Signal(SIGTERM);
  EXPECT_EQ(0U, caller.Answer().rfind("right 2100, here ", 0));
  server_->WaitForExit();
  EXPECT_EQ("right 70, here 60", caller.Ask("products 70"));
  EXPECT_EQ(1, Count(caller.End(), "gemmd_blas: "));
}

TEST_F(PreloadTest, AServerThatIsRestartedIsUsedAgain) {
  const std::string address = server_->address();
  Caller caller({Server(address), kAlways});
  EXPECT_EQ("there", caller.Ask("until-there 1"));
  server_->Signal(SIGTERM);
  server_->WaitForExit();
  EXPECT_EQ("right 70, here 60", caller.Ask("products 70"));
  server_ = std::make_unique<testing::ServerProcess>(
      std::vector<std::string>{"--cpu.threads=2", "--listen=" + address});
  ASSERT_EQ(address, server_->address());
  EXPECT_EQ("there", caller.Ask("until-there 2000000000"));
  EXPECT_EQ("right 70, here 0", caller.Ask("products 70"));
}

TEST_F(PreloadTest, AServerThatIsSilentCostsOneLimit) {
  Caller caller({Server(server_->address()), kAlways, kReport, "GEMMD_BLAS_LIMIT_MS=100"});
  EXPECT_EQ("there", caller.Ask("until-there 2000000000"));
  server_->Signal(SIGSTOP);
  const std::string answer = caller.Ask("products 70");
  server_->Signal(SIGCONT);
  EXPECT_EQ("right 70, here 60", answer);
  const std::string said = caller.End();
  EXPECT_EQ(1, Count(said, ": DEADLINE_EXCEEDED: ")) << said;
  EXPECT_NE(std::string::npos, said.find("here: server too slow")) << said;
  EXPECT_NE(std::string::npos, said.find("here: server failed lately")) << said;
}

TEST_F(PreloadTest, ManyThreads) {
  Caller caller({Server(server_->address()), kAlways});
  EXPECT_EQ("right 1600, here 0", caller.Ask("threads 8 200"));
  EXPECT_EQ("", caller.End());
}

TEST_F(PreloadTest, ItKeepsApartFromTheProgram) {
  Caller caller({Server(server_->address()), kAlways});
  EXPECT_EQ("right 70, here 0", caller.Ask("products 70"));
  EXPECT_EQ("threads yes, that take signals 0, names hidden", caller.Ask("apart"));
  EXPECT_EQ("", caller.End());
}

// The loader's own order: a BLAS that all see goes before one that was opened for one user alone,
// even if that one was opened before.
TEST_F(PreloadTest, ABlasThatAllSeeGoesFirst) {
  const testing::TemporaryDirectory directory;
  const std::string other =
      directory.File("libother.so", testing::FileBytes("tests/client/blas/libplain_blas.so"));
  Caller caller({"GEMMD_BLAS_MODE=never"});
  EXPECT_EQ("sees it", caller.Ask("see " + other));
  // None of the calls come to the one whose calls are counted.
  EXPECT_EQ("right 70, here 0", caller.Ask("products 70"));
  EXPECT_EQ("", caller.End());
}

TEST_F(PreloadTest, AResultHasTheSameBitsWhateverTheLoad) {
  Caller caller({Server(server_->address()), kAlways});
  EXPECT_EQ("equal 100", caller.Ask("bits 100"));
  EXPECT_EQ("", caller.End());
}

TEST_F(PreloadTest, AForkedChildComputesHereAndSaysSo) {
  Caller caller({Server(server_->address()), kAlways, kReport});
  EXPECT_EQ("right 70, here 0", caller.Ask("products 70"));
  EXPECT_EQ("right 70, here 60", caller.Ask("fork 70"));
  EXPECT_EQ("right 70, here 0", caller.Ask("products 70"));  // its parent goes on
  const std::string said = caller.End();
  EXPECT_EQ(1, Count(said, "was forked after its parent's first product: all is computed here\n"));
  EXPECT_EQ(1, Count(said, "gemmd_blas: the server computed "))
      << said;  // the child reports nothing
}

TEST_F(PreloadTest, AChildThatIsForkedBeforeGoesThereItself) {
  Caller caller({Server(server_->address()), kAlways});
  EXPECT_EQ("right 70, here 0", caller.Ask("fork 70"));
  EXPECT_EQ("libgemmd no, threads 1", caller.Ask("loaded"));
  EXPECT_EQ("", caller.End());
}

TEST_F(PreloadTest, AutoStaysWhereThisMachineIsFaster) {
  Caller caller({Server(server_->address()), kReport, "PLAIN_BLAS_INSTANT=1"});
  caller.Ask("large 3 300");
  const std::string said = caller.End();
  EXPECT_NE(std::string::npos, Squeezed(said).find("\ndgemm 512 here: faster 3 0 ")) << said;
}

// The BLAS here computes element by element, and the server twenty times as fast. A busy machine
// may delay it, and not for ever.
TEST_F(PreloadTest, AutoGoesWhereTheServerIsFaster) {
  Caller caller({Server(server_->address()), kReport});
  std::string answer;
  for (int i = 0; i < 100 && answer != "right 1, here 0"; ++i) answer = caller.Ask("large 1 400");
  EXPECT_EQ("right 1, here 0", answer);
  EXPECT_NE(std::string::npos, Squeezed(caller.End()).find("\ndgemm 512 server 1 1 "));
}

// The plain BLAS's C function calls the Fortran one by its name: that is no call of the program's.
TEST_F(PreloadTest, CallsThatABlasMakesOfItselfArePassedOn) {
  const testing::TemporaryDirectory directory;
  const std::string log = directory.File("log", "");
  Caller caller({"GEMMD_BLAS_MODE=never", "GEMMD_BLAS_LOG=" + log});
  EXPECT_EQ("right 700, here 600", caller.Ask("products 700"));
  EXPECT_EQ("", caller.End());
  EXPECT_EQ(200, Count(testing::FileBytes(log), "dgemm "));
}

// The only tenant's token, and a certificate for loopback.
TEST(SecurePreloadTest, ByTlsWithAToken) {
  const testing::TemporaryDirectory directory;
  const testing::CertificateAuthority authority("authority");
  const testing::CertificateFiles files =
      authority.Issue("server", {"/CN=server", "IP:127.0.0.1", "", ""});
  const std::string policy =
      directory.File("policy", testing::TokenEntry("secret", "alice", "role: USER"));
  const testing::ServerProcess server({"--cpu.threads=2", "--auth.policy-file=" + policy,
                                       "--tls.certificate-file=" + files.certificate,
                                       "--tls.key-file=" + files.key});
  const std::string roots = "GEMMD_BLAS_TLS_ROOT_CERTS=" + authority.certificate_file();
  const std::string token = "GEMMD_BLAS_TOKEN_FILE=" + directory.File("token", "secret\n");
  Caller known({Server(server.address()), kAlways, "GEMMD_BLAS_TLS=1", roots, token});
  EXPECT_EQ("right 70, here 0", known.Ask("products 70"));
  EXPECT_EQ("", known.End());
  Caller nobody({Server(server.address()), kAlways, "GEMMD_BLAS_TLS=1", roots});
  EXPECT_EQ("right 70, here 60", nobody.Ask("products 70"));
  EXPECT_EQ(1, Count(nobody.End(), ": UNAUTHENTICATED: "));
  Caller stranger({Server(server.address()), kAlways, "GEMMD_BLAS_TLS=1", token});
  EXPECT_EQ("right 70, here 60", stranger.Ask("products 70"));
  EXPECT_EQ(1, Count(stranger.End(), ": UNAVAILABLE: "));
}

TEST(SecurePreloadTest, FilesThatCannotBeUsedAreSaidOnce) {
  const testing::TemporaryDirectory directory;
  const std::string token = directory.File("token", "secret\n");
  const std::string none = directory.File("none", "\n");
  for (const auto& [settings, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"GEMMD_BLAS_TOKEN_FILE=/nowhere"}, "No such file or directory"},
           {{"GEMMD_BLAS_TOKEN_FILE=" + none}, "holds no token"},
           {{"GEMMD_BLAS_TOKEN_FILE=" + token, "GEMMD_SERVER=192.0.2.1:50051"},
            "would be sent to 192.0.2.1:50051 in plain text"},
           {{"GEMMD_BLAS_TOKEN_FILE=" + token, "GEMMD_SERVER=127.example.test:1"},
            "would be sent to 127.example.test:1 in plain text"},
           {{"GEMMD_BLAS_TOKEN_FILE=" + token, "GEMMD_SERVER=localhost:1"}, "UNAVAILABLE: "},
           {{"GEMMD_BLAS_TLS=1", "GEMMD_BLAS_TLS_ROOT_CERTS=/nowhere"}, "No such file"},
           // Certificates without TLS are the library's to refuse.
           {{"GEMMD_BLAS_TLS_ROOT_CERTS=" + token}, "INVALID_ARGUMENT: "}}) {
    std::vector<std::string> all = settings;
    all.push_back(kAlways);
    all.push_back(Server(kNobody));  // unless it is given before
    Caller caller(all);
    EXPECT_EQ("right 70, here 60", caller.Ask("products 70"));
    const std::string error = caller.End();
    EXPECT_EQ(1, Count(error, "gemmd_blas: ")) << error;
    EXPECT_EQ(1, Count(error, said)) << error;
  }
}

TEST_F(PreloadTest, EachCallIsLogged) {
  const testing::TemporaryDirectory directory;
  const std::string log = directory.File("log", "");
  Caller caller({Server(server_->address()), kAlways, "GEMMD_BLAS_LOG=" + log});
  EXPECT_EQ("there", caller.Ask("until-there 1"));
  caller.Ask("edges");
  EXPECT_EQ("", caller.End());
  const std::string lines = testing::FileBytes(log);
  EXPECT_EQ(0U, lines.rfind("dgemm 1x1x1 server: 1 product, 0.0 MiB, ", 0)) << lines;
  EXPECT_NE(std::string::npos, lines.find("\ndgemm 1x1x0 here: no product, ")) << lines;
  EXPECT_EQ(7, Count(lines, "\n")) << lines;
}

}  // namespace
}  // namespace gemmd::blas
