// Measures the cost of one `gemm matmul` beyond the arithmetic and the bytes. In one run, taking
// turns, medians of the rounds:
//   blas    OpenBLAS called directly, with every core
//   echo    the same bytes through generated protobuf code to a server and back: the
//           operands up, a result-sized answer down
//   gemm    the whole CLI process against gemmd: files read, product, file written
// Prints gemm / (blas + echo), which is to be at most 1.25.
//
//   bazel run --config=opt //tests/load:matmul_overhead [-- ROUNDS [SIZE]]
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "openblas/cblas.h"
#include "tests/load/forked_server.h"
#include "tests/load/timing.h"
#include "tests/testing/server_process.h"

extern char** environ;

namespace gemmd {
namespace {

// Answers every product with as many zero bytes as D would have.
class EchoService final : public v1::Gemm::CallbackService {
 public:
  grpc::ServerUnaryReactor* Matmul(grpc::CallbackServerContext* context,
                                   const v1::MatmulRequest* request,
                                   v1::MatmulResponse* response) override {
    response->add_payload()->set_data(
        std::string(request->header().a().data().rows() * request->header().b().data().columns() *
                        sizeof(float),
                    '\0'));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

void Serve(const ForkedServer::Serving& serving) {
  EchoService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  serving(absl::StrCat("127.0.0.1:", port));
  server->Wait();
}

// A float32 .npy file of n x n, as NumPy writes it.
void WriteNpy(const std::string& path, std::size_t n, const std::vector<float>& values) {
  std::string header =
      absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (", n, ", ", n, "), }");
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header.push_back('\n');
  const auto length = static_cast<std::uint16_t>(header.size());
  std::FILE* file = std::fopen(path.c_str(), "wb");
  std::fwrite("\x93NUMPY\x01\x00", 1, 8, file);
  std::fwrite(&length, 1, 2, file);
  std::fwrite(header.data(), 1, header.size(), file);
  std::fwrite(values.data(), sizeof(float), values.size(), file);
  std::fclose(file);
}

void RunCli(const std::string& server, const std::string& folder) {
  std::vector<std::string> words = {"client/cli/gemm", "--server=" + server, "matmul",
                                    folder + "/A.npy", folder + "/B.npy",    "-o",
                                    folder + "/C.npy"};
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1, 0);
  pid_t pid = 0;
  int status = 1;
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) == 0) {
    waitpid(pid, &status, 0);
  }
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) {
    std::fprintf(stderr, "gemm failed\n");
    std::exit(1);
  }
}

int Main(int rounds, std::size_t n) {
  const ForkedServer echo(Serve);
  testing::ServerProcess server;
  std::vector<float> a(n * n);
  std::vector<float> b(n * n);
  std::vector<float> c(n * n);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(static_cast<int>(i * 7919 % 2001) - 1000) / 1000;
    b[i] = static_cast<float>(static_cast<int>(i * 104729 % 2003) - 1001) / 1000;
  }
  char folder[] = "/tmp/gemmd-overhead-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  WriteNpy(absl::StrCat(folder, "/A.npy"), n, a);
  WriteNpy(absl::StrCat(folder, "/B.npy"), n, b);

  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  openblas_set_num_threads(threads);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto stub = v1::Gemm::NewStub(
      grpc::CreateCustomChannel(echo.address(), grpc::InsecureChannelCredentials(), arguments));

  std::vector<double> blas_s;
  std::vector<double> echo_s;
  std::vector<double> gemm_s;
  const auto size = static_cast<int>(n);
  for (int round = -1; round < rounds; ++round) {  // round -1 warms up
    const double blas = Seconds([&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, a.data(), size,
                  b.data(), size, 0, c.data(), size);
    });
    const double echoed = Seconds([&] {
      v1::MatmulRequest request;
      v1::MatmulResponse response;
      for (v1::Operand* operand :
           {request.mutable_header()->mutable_a(), request.mutable_header()->mutable_b()}) {
        operand->mutable_data()->set_rows(n);
        operand->mutable_data()->set_columns(n);
      }
      request.add_payload()->set_data(a.data(), n * n * sizeof(float));
      request.add_payload()->set_data(b.data(), n * n * sizeof(float));
      grpc::ClientContext context;
      if (!stub->Matmul(&context, request, &response).ok()) std::abort();
    });
    std::remove(absl::StrCat(folder, "/C.npy").c_str());  // a new file each time
    const double cli = Seconds([&] { RunCli(server.address(), folder); });
    if (round < 0) continue;
    blas_s.push_back(blas);
    echo_s.push_back(echoed);
    gemm_s.push_back(cli);
  }
  for (const char* name : {"/A.npy", "/B.npy", "/C.npy", ""}) {
    std::remove(absl::StrCat(folder, name).c_str());
  }
  const double blas = Median(blas_s);
  const double echoed = Median(echo_s);
  const double cli = Median(gemm_s);
  std::printf(
      "%zux%zux%zu f32, %d threads, medians of %d rounds\n"
      "  blas  %7.1f ms\n  echo  %7.1f ms\n  gemm  %7.1f ms\n"
      "  gemm / (blas + echo) = %.3f\n",
      n, n, n, threads, rounds, blas * 1e3, echoed * 1e3, cli * 1e3, cli / (blas + echoed));
  return 0;
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return gemmd::Main(argc > 1 ? std::atoi(argv[1]) : 9,
                     argc > 2 ? static_cast<std::size_t>(std::atoi(argv[2])) : 2048);
}
