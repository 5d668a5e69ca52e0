// Requests a second of ModelInfer and of Matmul for the same products, taking turns, each over a
// connection of its own. Messages are encoded before, and answers are not read, so that the
// difference is the server's. Prints medians of the rounds and their ratio, which is to be at least
// 0.95.
//
//   bazel run --config=opt //tests/load:oip_overhead [-- ROUNDS [SIZE_OF_THE_LARGE_PRODUCT]]
//
// With a third argument, an address, it measures that server, which has no operand "oip-overhead".
#include <array>
#include <cctype>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "inference/grpc_service.pb.h"
#include "tests/load/timing.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

constexpr char kName[] = "oip-overhead";
constexpr int kConcurrency = 4;

struct Shape {
  const char* name;
  std::uint64_t m, n, k;
  v1::DataType type;
  const char* datatype;
  std::uint64_t element_bytes;
  bool is_resident;  // B
  int requests;      // of a round
};

grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

void SetPlane(const Shape& shape, std::uint64_t rows, std::uint64_t columns, v1::Operand* operand) {
  operand->mutable_data()->set_type(shape.type);
  operand->mutable_data()->set_rows(rows);
  operand->mutable_data()->set_columns(columns);
}

grpc::ByteBuffer MatmulOf(const Shape& shape) {
  v1::MatmulRequest request;
  SetPlane(shape, shape.m, shape.k, request.mutable_header()->mutable_a());
  v1::Chunk* chunk = request.add_payload();
  chunk->set_operand(v1::A);
  chunk->set_data(std::string(shape.m * shape.k * shape.element_bytes, '\0'));
  if (shape.is_resident) {
    request.mutable_header()->mutable_b()->set_name(kName);
  } else {
    SetPlane(shape, shape.k, shape.n, request.mutable_header()->mutable_b());
    chunk = request.add_payload();
    chunk->set_operand(v1::B);
    chunk->set_data(std::string(shape.k * shape.n * shape.element_bytes, '\0'));
  }
  return BytesOf(request.SerializeAsString());
}

grpc::ByteBuffer InferOf(const Shape& shape) {
  inference::ModelInferRequest request;
  std::string type = shape.datatype;
  for (char& c : type) c = static_cast<char>(std::tolower(c));
  request.set_model_name(shape.is_resident ? absl::StrCat("linear/", kName)
                                           : absl::StrCat("matmul_", type));
  const auto add = [&](const char* name, std::uint64_t rows, std::uint64_t columns) {
    auto* const input = request.add_inputs();
    input->set_name(name);
    input->set_datatype(shape.datatype);
    input->add_shape(static_cast<std::int64_t>(rows));
    input->add_shape(static_cast<std::int64_t>(columns));
    request.add_raw_input_contents(std::string(rows * columns * shape.element_bytes, '\0'));
  };
  add("A", shape.m, shape.k);
  if (!shape.is_resident) add("B", shape.k, shape.n);
  return BytesOf(request.SerializeAsString());
}

// A product of zeros of K x N that stays, under the name.
void KeepOperand(const std::shared_ptr<grpc::Channel>& channel, const Shape& shape) {
  v1::MatmulRequest request;
  SetPlane(shape, shape.k, 1, request.mutable_header()->mutable_a());
  SetPlane(shape, 1, shape.n, request.mutable_header()->mutable_b());
  for (const auto& [operand, elements] : {std::pair{v1::A, shape.k}, std::pair{v1::B, shape.n}}) {
    v1::Chunk* const chunk = request.add_payload();
    chunk->set_operand(operand);
    chunk->set_data(std::string(elements * shape.element_bytes, '\0'));
  }
  request.mutable_header()->mutable_keep_result();
  v1::MatmulResponse response;
  grpc::ClientContext multiplying;
  grpc::Status status = v1::Gemm::NewStub(channel)->Matmul(&multiplying, request, &response);
  v1::SetNameRequest name;
  name.set_handle(response.handle());
  name.set_new_name(kName);
  name.set_replace(true);
  v1::SetNameResponse named;
  grpc::ClientContext naming;
  if (status.ok()) status = v1::Operands::NewStub(channel)->SetName(&naming, name, &named);
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error_message().c_str());
  std::exit(1);
}

// Sends one message again and again, so many at a time.
class Sender {
 public:
  Sender(const std::shared_ptr<grpc::Channel>& channel, std::string method,
         const grpc::ByteBuffer& message)
      : stub_(channel), method_(std::move(method)), message_(message) {}

  // The requests a second.
  double Run(int requests) {
    left_ = requests;
    in_flight_ = kConcurrency;
    const double seconds = Seconds([this] {
      for (int i = 0; i < kConcurrency; ++i) Next();
      std::unique_lock<std::mutex> lock(mutex_);
      ended_.wait(lock, [this] { return in_flight_ == 0; });
    });
    return requests / seconds;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer answer;
  };

  void Next() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (left_ == 0) {
        if (--in_flight_ == 0) ended_.notify_all();
        return;
      }
      --left_;
    }
    auto* const call = new Call{{}, message_, {}};
    stub_.UnaryCall(&call->context, method_, grpc::StubOptions(), &call->request, &call->answer,
                    [this, call](const grpc::Status& status) {
                      if (!status.ok()) {
                        std::fprintf(stderr, "%s: %s\n", method_.c_str(),
                                     status.error_message().c_str());
                        std::exit(1);
                      }
                      delete call;
                      Next();
                    });
  }

  grpc::GenericStub stub_;
  const std::string method_;
  const grpc::ByteBuffer message_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int left_ = 0;
  int in_flight_ = 0;
};

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

void Measure(const std::string& address, const Shape& shape, int rounds) {
  const auto channel = NewChannel(address);
  if (shape.is_resident) KeepOperand(channel, shape);
  Sender matmul(channel, "/gemmd.v1.Gemm/Matmul", MatmulOf(shape));
  Sender infer(NewChannel(address), "/inference.GRPCInferenceService/ModelInfer", InferOf(shape));
  matmul.Run(shape.requests);  // to warm up
  infer.Run(shape.requests);
  std::vector<double> of_matmul;
  std::vector<double> of_infer;
  std::vector<double> ratios;
  for (int i = 0; i < rounds; ++i) {
    of_matmul.push_back(matmul.Run(shape.requests));
    of_infer.push_back(infer.Run(shape.requests));
    ratios.push_back(of_infer.back() / of_matmul.back());
  }
  std::printf("%-28s Matmul %9.1f/s   ModelInfer %9.1f/s   ratio %.3f\n", shape.name,
              Median(of_matmul), Median(of_infer), Median(ratios));
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  const auto side = static_cast<std::uint64_t>(argc > 2 ? std::atoi(argv[2]) : 1024);
  std::unique_ptr<testing::ServerProcess> own;
  std::string address = argc > 3 ? argv[3] : "";
  if (address.empty()) {
    own = std::make_unique<testing::ServerProcess>(
        std::vector<std::string>{"--limits.message-bytes=268435456"});
    address = own->address();
  }
  const std::string large = absl::StrCat(side, " cubed bf16");
  for (const Shape& shape :
       {Shape{"256 cubed f32", 256, 256, 256, v1::F32, "FP32", 4, false, 1000},
        Shape{"1 x 4096 x 4096 f32, B stays", 1, 4096, 4096, v1::F32, "FP32", 4, true, 1000},
        Shape{large.c_str(), side, side, side, v1::BF16, "BF16", 2, false, 16}}) {
    Measure(address, shape, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) { return gemmd::Main(argc, argv); }
