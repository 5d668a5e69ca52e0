#include "tests/abuse/attacks.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>

#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/operands.pb.h"

namespace gemmd::testing {
namespace {

constexpr char kUpload[] = "/gemmd.v1.Operands/Upload";
constexpr char kFindMissing[] = "/gemmd.v1.Operands/FindMissing";
constexpr char kDownload[] = "/gemmd.v1.Operands/Download";
constexpr char kStatistics[] = "/gemmd.v1.Admin/Statistics";

std::string Plane1000Begin() {
  v1::MatmulStreamRequest request;
  v1::MatmulHeader* const header = request.mutable_begin()->mutable_header();
  for (v1::Operand* operand : {header->mutable_a(), header->mutable_b()}) {
    operand->mutable_data()->set_type(v1::F32);
    operand->mutable_data()->set_rows(1000);
    operand->mutable_data()->set_columns(1000);
  }
  return RawMessage(false, request.SerializeAsString());
}

std::string EmptyChunk() {
  v1::MatmulStreamRequest request;
  request.mutable_chunk()->set_operand(v1::A);
  return RawMessage(false, request.SerializeAsString());
}

void ResetCalls(const Abuser& abuser) {
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int i = 0; i < 8; ++i) connections.push_back(abuser.Connect());
  for (int i = 0; i < 100; ++i) {
    for (const auto& each : connections) {
      for (const char* method : kUnaryProducts) {
        if (!each->BeginAndReset(method, 50)) return;
      }
    }
  }
}

void SendHalfMessages(const Abuser& abuser) {
  const auto connection = abuser.Connect();
  const std::string half = RawMessage(false, std::string(1010000, '\0')).substr(0, 50000);
  for (const char* method : {kMatmul, kModelInfer, kStatistics, kUpload, kFindMissing}) {
    connection->Send(connection->Begin(method), half, false);
  }
  connection->ReceiveEnd(1);
}

void LeaveAnswersUnread(const Abuser& abuser) {
  const auto connection = abuser.ConnectUnread();
  for (const char* method : kAllProducts) {
    const std::string product = OuterProduct(method, 512);
    for (int i = 0; i < 5; ++i) connection->Send(connection->Begin(method), product, true);
  }
  connection->ReceiveEnd(0);
}

void OpenStreams(const Abuser& abuser) {
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int i = 0; i < 20; ++i) {
    connections.push_back(abuser.Connect());
    for (int j = 0; j < 24; ++j) connections.back()->Begin(kStreamedProducts[j % 2]);
  }
  connections.back()->ReceiveEnd(0);
}

void SendEmptyChunks(const Abuser& abuser) {
  const auto connection = abuser.Connect();
  const std::uint32_t call = connection->Begin(kMatmulStream);
  connection->Send(call, Plane1000Begin(), false);
  const std::string chunk = EmptyChunk();
  for (int i = 0; i < 2000; ++i) connection->Send(call, chunk, false);
  connection->ReceiveEnd(call);
}

void ConnectAndLeave(const Abuser& abuser) {
  for (int i = 0; i < 100; ++i) abuser.Connect();
}

void SendBadHeaders(const Abuser& abuser) {
  const std::string request = RawField(":method", "POST") + RawField(":scheme", "http") +
                              RawField(":path", kMatmul) + RawField(":authority", "x") +
                              RawField("content-type", "application/grpc");
  const std::string remembered = RawField("x", std::string(4000, 'x'), FieldForm::kIndexed);
  constexpr char kNewest = static_cast<char>(0x80 | 62);
  constexpr std::size_t kFrameBytes = 16384;
  abuser.Connect()->SendLastHeaders(request + remembered + std::string(100000, kNewest),
                                    kFrameBytes);
  abuser.Connect()->SendLastHeaders(request + RawField("x", std::string(1 << 18, 'x')),
                                    kFrameBytes);
}

void SendCompressed(const Abuser& abuser) {
  const auto connection = abuser.Connect();
  for (const char* method : kAllProducts) {
    const std::uint32_t call = connection->Begin(method, {{"grpc-encoding", "gzip"}});
    connection->Send(call, RawMessage(true, std::string(100000, '\0')), true);
    connection->ReceiveEnd(call);
  }
}

void AskForMany(const Abuser& abuser) {
  v1::FindMissingRequest request;
  for (int i = 0; i < 1000; ++i) request.add_digests(std::string(32, 'd'));
  const auto connection = abuser.Connect();
  const std::uint32_t call = connection->Begin(kFindMissing);
  connection->Send(call, RawMessage(false, request.SerializeAsString()), true);
  connection->ReceiveEnd(call);
}

void StallUploads(const Abuser& abuser) {
  const auto connection = abuser.Connect();
  v1::UploadRequest request;
  for (char digest = 'a'; digest < 'u'; ++digest) {
    request.mutable_begin()->set_digest(std::string(32, digest));
    v1::Plane* const plane = request.mutable_begin()->mutable_operand()->mutable_data();
    plane->set_type(v1::F32);
    plane->set_rows(1000);
    plane->set_columns(1000);
    connection->Send(connection->Begin(kUpload), RawMessage(false, request.SerializeAsString()),
                     false);
  }
  connection->ReceiveEnd(0);
}

constexpr std::uint32_t kChunk = 60U << 20;

// Sends half of a message of 60 MiB on each of several streams that have no request, as flow
// control allows: to the server each looks like a message that is coming.
void HoldHalfChunks(const Abuser& abuser) {
  std::vector<std::unique_ptr<RawConnection>> connections;
  std::vector<std::thread> senders;
  for (int i = 0; i < 10; ++i) {
    connections.push_back(abuser.Connect());
    senders.emplace_back([i, connection = connections.back().get()] {
      connection->SendAsAllowed(connection->Begin(kStreamedProducts[i % 2]),
                                RawMessageStart(kChunk), kChunk / 2);
    });
  }
  for (std::thread& each : senders) each.join();
  connections.front()->ReceiveEnd(0);
}

// Sends half of each message of 60 MiB in pieces, as flow control allows. Beside each piece a call
// ends within a message: it began before the bytes came, and might have brought them.
void HideHalfChunks(const Abuser& abuser) {
  constexpr int kPieces = 15;
  std::vector<std::unique_ptr<RawConnection>> connections;
  std::vector<std::uint32_t> calls;
  for (int i = 0; i < 10; ++i) {
    connections.push_back(abuser.Connect());
    calls.push_back(connections.back()->Begin(kStreamedProducts[i % 2]));
  }
  for (int piece = 0; piece < kPieces; ++piece) {
    for (std::size_t i = 0; i < connections.size(); ++i) {
      RawConnection& connection = *connections[i];
      const std::uint32_t decoy = connection.Begin(kMatmulStream);
      connection.SendAsAllowed(calls[i], piece == 0 ? RawMessageStart(kChunk) : "",
                               kChunk / 2 / kPieces);
      connection.Reset(decoy);
    }
  }
  connections.front()->ReceiveEnd(0);
}

void SendNoise(const Abuser& abuser) {
  static thread_local std::mt19937_64 random(7);
  const auto connection = abuser.Connect();
  std::string bytes(20000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (const char* method :
       {kMatmul, kMatmulStream, kModelInfer, kModelStreamInfer, kUpload, kDownload}) {
    connection->Send(connection->Begin(method), RawMessage(false, bytes), true);
  }
  connection->ReceiveEnd(1);
}

}  // namespace

inference::ModelInferRequest OuterInfer(std::uint64_t n) {
  inference::ModelInferRequest request;
  request.set_model_name("matmul_fp32");
  for (const char* name : {"A", "B"}) {
    auto* const input = request.add_inputs();
    input->set_name(name);
    input->set_datatype("FP32");
    const auto size = static_cast<std::int64_t>(n);
    input->add_shape(name[0] == 'A' ? size : 1);
    input->add_shape(name[0] == 'A' ? 1 : size);
    request.add_raw_input_contents(std::string(n * 4, '\0'));
  }
  return request;
}

std::string OuterProduct(const std::string& method, std::uint64_t n) {
  if (method == kModelInfer || method == kModelStreamInfer) {
    return RawMessage(false, OuterInfer(n).SerializeAsString());
  }
  v1::MatmulRequest request;
  for (const v1::OperandName name : {v1::A, v1::B}) {
    v1::Operand* const operand = name == v1::A ? request.mutable_header()->mutable_a()
                                               : request.mutable_header()->mutable_b();
    operand->mutable_data()->set_type(v1::F32);
    operand->mutable_data()->set_rows(name == v1::A ? n : 1);
    operand->mutable_data()->set_columns(name == v1::A ? 1 : n);
    v1::Chunk* const chunk = request.add_payload();
    chunk->set_operand(name);
    chunk->set_data(std::string(n * 4, '\0'));
  }
  if (method == kMatmul) return RawMessage(false, request.SerializeAsString());
  v1::MatmulStreamRequest streamed;
  streamed.mutable_begin()->mutable_header()->Swap(request.mutable_header());
  streamed.mutable_begin()->mutable_payload()->Swap(request.mutable_payload());
  return RawMessage(false, streamed.SerializeAsString());
}

Abuser::Abuser(std::string server, std::string source) : server_(std::move(server)) {
  options_.source = std::move(source);
  options_.patience_s = 2;
}

std::unique_ptr<RawConnection> Abuser::Connect() const {
  return std::make_unique<RawConnection>(server_, options_);
}

std::unique_ptr<RawConnection> Abuser::ConnectUnread() const {
  RawConnection::Options options = options_;
  options.stream_window = options.window = 0x7fffffff;
  options.receive_buffer = 4096;
  return std::make_unique<RawConnection>(server_, options);
}

const std::vector<Attack>& AllAttacks() {
  static const auto* const kAttacks = new std::vector<Attack>{
      {"resets calls", ResetCalls},
      {"sends half messages", SendHalfMessages},
      {"leaves answers unread", LeaveAnswersUnread},
      {"opens streams", OpenStreams},
      {"sends empty chunks", SendEmptyChunks},
      {"connects and leaves", ConnectAndLeave},
      {"sends bad headers", SendBadHeaders},
      {"sends compressed messages", SendCompressed},
      {"asks for many", AskForMany},
      {"stalls uploads", StallUploads},
      {"holds half chunks", HoldHalfChunks},
      {"hides half chunks", HideHalfChunks},
      {"sends noise", SendNoise},
  };
  return *kAttacks;
}

}  // namespace gemmd::testing
