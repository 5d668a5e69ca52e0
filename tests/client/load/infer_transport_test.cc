// Requests of the Open Inference Protocol over real sockets, answered as a test's script says. Load
// is due at once: no test waits for a time, but where time itself ends a request.
#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/load/load_generator.h"
#include "client/load/results/summary.h"
#include "client/load/transport/infer_message.h"
#include "client/load/transport/matmul_transport.h"
#include "client/load/transport/protocol.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "inference/grpc_service.grpc.pb.h"

namespace gemmd::load {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Stream = grpc::ServerReaderWriter<ModelStreamInferResponse, ModelInferRequest>;

// D of 2 x 2 int32: the product of two matrices of ones.
ModelInferResponse Twos(const std::string& id = "") {
  ModelInferResponse response;
  response.set_model_name("matmul_int8");
  response.set_id(id);
  auto* const d = response.add_outputs();
  d->set_name("D");
  d->set_datatype("INT32");
  d->add_shape(2);
  d->add_shape(2);
  response.add_raw_output_contents(std::string("\2\0\0\0\2\0\0\0\2\0\0\0\2\0\0\0", 16));
  auto& parameters = *response.mutable_parameters();
  parameters["receipt_decode_us"].set_double_param(1);
  parameters["receipt_compute_us"].set_double_param(3);
  parameters["receipt_verify_us"].set_double_param(0.5);
  parameters["receipt_total_us"].set_double_param(5);
  parameters["receipt_unattributed_us"].set_double_param(0.5);
  parameters["receipt_batch_requests"].set_uint64_param(4);
  return response;
}

class Server final : private inference::GRPCInferenceService::Service {
 public:
  // Gives the answer to the request of that number, from 0 on, or refuses it.
  std::function<grpc::Status(int, ModelInferResponse*)> infer = [](int,
                                                                   ModelInferResponse* response) {
    *response = Twos();
    return grpc::Status::OK;
  };
  std::function<grpc::Status(Stream*)> stream;

  Server() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Server() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string target() const { return absl::StrCat("127.0.0.1:", port_); }
  std::vector<ModelInferRequest> requests() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
  }
  int streams() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return streams_;
  }

 private:
  grpc::Status ModelInfer(grpc::ServerContext* /*context*/, const ModelInferRequest* request,
                          ModelInferResponse* response) override {
    int number = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      number = static_cast<int>(requests_.size());
      requests_.push_back(*request);
    }
    return infer(number, response);
  }
  grpc::Status ModelStreamInfer(grpc::ServerContext* /*context*/, Stream* messages) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++streams_;
    }
    return stream(messages);
  }

  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<ModelInferRequest> requests_;
  int streams_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

Workload Int8(const std::function<void(RequestSpec&)>& change = [](RequestSpec&) {}) {
  WorkloadFile file;
  RequestSpec& spec = *file.add_request();
  spec.set_m(2);
  spec.set_n(2);
  spec.set_k(2);
  spec.set_type("int8");
  change(spec);
  return *MakeWorkload(file);
}

Workload Streamed() {
  return Int8([](RequestSpec& spec) { spec.set_call("stream"); });
}

MatmulTransportOptions To(const Server& server) {
  MatmulTransportOptions options;
  options.protocol = Protocol::kOip;
  options.channel.target = server.target();
  return options;
}

Summary SendAtOnce(int requests, Transport& transport) {
  LoadOptions options;
  options.arrivals.emplace();
  options.arrivals->kind = ArrivalKind::kReplay;
  options.arrivals->replay_ns.assign(static_cast<std::size_t>(requests), 0);
  options.warm_up_ns = 0;
  options.tick_ns = 1000000;
  SteadyClock clock;
  return Summarize(*GenerateLoad(options, {1}, clock, transport), {{}});
}

TEST(InferTransport, ARequestSaysWhatTheWorkloadSays) {
  Server server;
  const auto all = [](RequestSpec& spec) {
    spec.set_k(3);
    spec.set_transpose_b(true);
    spec.set_kernel("cpu/panel_s8");
    spec.set_determinism("fast");
    spec.set_priority("low");
    spec.set_output_type("int32");
  };
  auto transport = *MatmulTransport::Create(Int8(all), To(server));
  EXPECT_EQ(SendAtOnce(1, *transport).ok, 1U);
  ASSERT_EQ(server.requests().size(), 1U);
  const ModelInferRequest request = server.requests()[0];
  EXPECT_EQ(request.model_name(), "matmul_int8");
  ASSERT_EQ(request.inputs_size(), 2);
  EXPECT_EQ(request.inputs(0).name(), "A");
  EXPECT_EQ(request.inputs(0).datatype(), "INT8");
  EXPECT_THAT(request.inputs(0).shape(), ElementsAre(2, 3));
  EXPECT_EQ(request.inputs(1).name(), "B");
  EXPECT_THAT(request.inputs(1).shape(), ElementsAre(2, 3));  // N lines of K
  ASSERT_EQ(request.raw_input_contents_size(), 2);
  EXPECT_EQ(request.raw_input_contents(0).size(), 6U);
  EXPECT_EQ(request.raw_input_contents(1).size(), 6U);
  const auto& parameters = request.parameters();
  EXPECT_EQ(parameters.size(), 6U);
  EXPECT_TRUE(parameters.at("receipt").bool_param());
  EXPECT_TRUE(parameters.at("transpose_b").bool_param());
  EXPECT_EQ(parameters.at("kernel").string_param(), "cpu/panel_s8");
  EXPECT_EQ(parameters.at("determinism").string_param(), "fast");
  EXPECT_EQ(parameters.at("priority").int64_param(), 3);
  EXPECT_EQ(parameters.at("output_type").string_param(), "INT32");
}

TEST(InferTransport, NothingIsSaidThatIsTheDefault) {
  Server server;
  auto transport = *MatmulTransport::Create(Int8(), To(server));
  SendAtOnce(1, *transport);
  EXPECT_EQ(server.requests().at(0).parameters().size(), 1U);
  EXPECT_EQ(server.requests().at(0).parameters().count("receipt"), 1U);
  EXPECT_EQ(server.requests().at(0).id(), "");
}

TEST(InferTransport, CountsErrorsByCodeAndHasTheReceiptsStages) {
  Server server;
  server.infer = [](int number, ModelInferResponse* response) {
    *response = Twos();
    return number % 4 == 1   ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")
           : number % 4 == 2 ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full")
                             : grpc::Status::OK;
  };
  auto transport = *MatmulTransport::Create(Int8(), To(server));
  const Summary summary = SendAtOnce(40, *transport);
  EXPECT_EQ(summary.ok, 20U);
  EXPECT_EQ(summary.errors.at("UNAVAILABLE"), 10U);
  EXPECT_EQ(summary.errors.at("RESOURCE_EXHAUSTED"), 10U);
  EXPECT_EQ(server.requests().size(), 40U);
  EXPECT_EQ(transport->TakeFindings().first_errors.at("UNAVAILABLE"), "draining");
  EXPECT_FLOAT_EQ(summary.stage_mean_us[kServerDecode], 1);
  EXPECT_FLOAT_EQ(summary.stage_mean_us[kCompute], 3);
  EXPECT_FLOAT_EQ(summary.stage_mean_us[kServerOther], 1);  // what verifies, and what is in none
  EXPECT_GT(summary.stage_mean_us[kWire], 0);
  EXPECT_EQ(summary.batch_requests.at(4), 20U);
}

// The drawn operands are no ones, so that the scripted twos are wrong.
TEST(InferTransport, FindsWrongProducts) {
  Server server;
  MatmulTransportOptions options = To(server);
  options.verify_fraction = 1;
  auto transport = *MatmulTransport::Create(Int8(), options);
  SendAtOnce(30, *transport);
  const Findings findings = transport->TakeFindings();
  EXPECT_EQ(findings.verified, 30U);
  EXPECT_EQ(findings.wrong, 30U);
  EXPECT_THAT(findings.first_wrong, HasSubstr("row "));
}

TEST(InferTransport, AnswersThatAreNotTheProductAreInternal) {
  const std::vector<std::function<void(ModelInferResponse&)>> spoilt = {
      [](ModelInferResponse& r) { r.mutable_outputs(0)->set_name("C"); },
      [](ModelInferResponse& r) { r.mutable_outputs(0)->set_datatype("FP32"); },
      [](ModelInferResponse& r) { r.mutable_outputs(0)->set_shape(1, 3); },
      [](ModelInferResponse& r) { r.mutable_outputs(0)->set_shape(0, -2); },
      [](ModelInferResponse& r) { r.mutable_outputs(0)->add_shape(1); },
      [](ModelInferResponse& r) { r.add_outputs(); },
      [](ModelInferResponse& r) { r.clear_outputs(); },
      [](ModelInferResponse& r) { r.clear_raw_output_contents(); },
      [](ModelInferResponse& r) { r.add_raw_output_contents("abcd"); },
      [](ModelInferResponse& r) { r.mutable_raw_output_contents(0)->pop_back(); },
  };
  for (const auto& spoil : spoilt) {
    Server server;
    server.infer = [&spoil](int, ModelInferResponse* response) {
      *response = Twos();
      spoil(*response);
      return grpc::Status::OK;
    };
    auto transport = *MatmulTransport::Create(Int8(), To(server));
    EXPECT_EQ(SendAtOnce(1, *transport).errors["INTERNAL"], 1U)
        << &spoil - spoilt.data() << ": " << Twos().ShortDebugString();
  }
}

// Answers come in any order, and each goes to the request of its id.
TEST(InferTransport, AStreamsAnswersGoByTheirIds) {
  Server server;
  server.stream = [](Stream* messages) {
    std::vector<std::string> ids(5);
    ModelInferRequest request;
    while (true) {
      for (std::string& id : ids) {
        if (!messages->Read(&request)) return grpc::Status::OK;
        id = request.id();
      }
      std::reverse(ids.begin(), ids.end());
      for (const std::string& id : ids) {
        ModelStreamInferResponse response;
        *response.mutable_infer_response() = Twos(id);
        if (id == "3") {
          response.set_error_message("[request id: \"3\"] RESOURCE_EXHAUSTED: the queue is full");
          response.mutable_infer_response()->clear_outputs();
        }
        messages->Write(response);
      }
    }
  };
  MatmulTransportOptions options = To(server);
  options.channels = 1;
  auto transport = *MatmulTransport::Create(Streamed(), options);
  const Summary summary = SendAtOnce(20, *transport);
  EXPECT_EQ(summary.ok, 19U);
  EXPECT_EQ(summary.errors.at("RESOURCE_EXHAUSTED"), 1U);
  EXPECT_EQ(transport->TakeFindings().first_errors.at("RESOURCE_EXHAUSTED"), "the queue is full");
  EXPECT_EQ(server.streams(), 1);
  EXPECT_EQ(server.requests().size(), 0U);
}

TEST(InferTransport, RequestsTakeStreamsInTurn) {
  Server server;
  server.stream = [](Stream* messages) {
    ModelInferRequest request;
    while (messages->Read(&request)) {
      ModelStreamInferResponse response;
      *response.mutable_infer_response() = Twos(request.id());
      messages->Write(response);
    }
    return grpc::Status::OK;
  };
  MatmulTransportOptions options = To(server);
  options.channels = 2;
  options.streams = 3;
  auto transport = *MatmulTransport::Create(Streamed(), options);
  EXPECT_EQ(SendAtOnce(60, *transport).ok, 60U);
  EXPECT_EQ(server.streams(), 6);
}

// Streams end on gRPC's threads while the transport goes; none of them may be the last to have its
// channel, whose end waits for these threads.
TEST(InferTransport, TheLastToLetAChannelGoIsTheTransport) {
  Server server;
  server.stream = [](Stream* messages) {
    ModelInferRequest request;
    while (messages->Read(&request)) {
      ModelStreamInferResponse response;
      *response.mutable_infer_response() = Twos(request.id());
      messages->Write(response);
    }
    return grpc::Status::OK;
  };
  MatmulTransportOptions options = To(server);
  options.channels = 2;
  options.streams = 8;
  for (int round = 0; round < 60; ++round) {
    auto transport = *MatmulTransport::Create(Streamed(), options);
    EXPECT_EQ(SendAtOnce(16, *transport).ok, 16U);
  }
}

TEST(InferTransport, AnAnswerToNoRequestEndsAllOfTheStream) {
  for (const char* id : {"", "x", "0", "-1", "99", "4294967297", "18446744073709551617"}) {
    Server server;
    server.stream = [id](Stream* messages) {
      ModelInferRequest request;
      for (int i = 0; i < 3; ++i) messages->Read(&request);
      ModelStreamInferResponse response;
      *response.mutable_infer_response() = Twos(id);
      messages->Write(response);
      while (messages->Read(&request)) {
      }
      return grpc::Status::OK;
    };
    MatmulTransportOptions options = To(server);
    options.channels = 1;
    auto transport = *MatmulTransport::Create(Streamed(), options);
    EXPECT_EQ(SendAtOnce(3, *transport).errors["INTERNAL"], 3U) << id;
    EXPECT_THAT(transport->TakeFindings().first_errors["INTERNAL"],
                HasSubstr(absl::StrCat("it answers request \"", id, "\", which was not sent")));
  }
}

TEST(InferTransport, AStreamThatEndsFailsItsRequestsAndIsOpenedAgain) {
  Server server;
  server.stream = [](Stream* messages) {
    ModelInferRequest request;
    messages->Read(&request);
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the session is over");
  };
  MatmulTransportOptions options = To(server);
  options.channels = 1;
  auto transport = *MatmulTransport::Create(Streamed(), options);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(SendAtOnce(1, *transport).errors["RESOURCE_EXHAUSTED"], 1U);
    EXPECT_EQ(server.streams(), i);
  }
  EXPECT_EQ(transport->TakeFindings().first_errors["RESOURCE_EXHAUSTED"], "the session is over");
}

TEST(InferTransport, AServerThatIsGoneIsUnavailable) {
  for (const Workload& workload : {Int8(), Streamed()}) {
    MatmulTransportOptions options;
    options.protocol = Protocol::kOip;
    options.channel.target = "127.0.0.1:1";
    auto transport = *MatmulTransport::Create(workload, options);
    EXPECT_EQ(SendAtOnce(5, *transport).errors["UNAVAILABLE"], 5U);
  }
}

// Its answer comes when nobody waits for it, and ends nothing.
TEST(InferTransport, ARequestOfAStreamEndsWithTheTimeout) {
  Server server;
  std::promise<void> timed_out;
  server.stream = [&timed_out](Stream* messages) {
    ModelInferRequest request;
    messages->Read(&request);
    timed_out.get_future().wait();
    ModelStreamInferResponse response;
    *response.mutable_infer_response() = Twos(request.id());
    messages->Write(response);
    messages->Read(&request);
    *response.mutable_infer_response() = Twos(request.id());
    messages->Write(response);
    messages->Read(&request);
    return grpc::Status::OK;
  };
  MatmulTransportOptions options = To(server);
  options.channels = 1;
  options.timeout = absl::Seconds(1);
  auto transport = *MatmulTransport::Create(Streamed(), options);
  EXPECT_EQ(SendAtOnce(1, *transport).errors["DEADLINE_EXCEEDED"], 1U);
  timed_out.set_value();
  EXPECT_EQ(SendAtOnce(1, *transport).ok, 1U);
  EXPECT_EQ(server.streams(), 1);
}

TEST(InferTransport, SaysWhatGoesOverTheWire) {
  const Server server;
  for (const Workload& workload : {Int8(), Streamed()}) {
    const EchoSizes sizes = (*MatmulTransport::Create(workload, To(server)))->sizes().at(0);
    EXPECT_GT(sizes.request_bytes, 8U);
    EXPECT_LT(sizes.request_bytes, 150U);
    EXPECT_GT(sizes.answer_bytes, 16U);
    EXPECT_EQ(sizes.streamed, workload[0].route.transport == client::Transport::kStream);
    EXPECT_GE(sizes.chunk_bytes, sizes.answer_bytes);
  }
}

TEST(StreamedError, HasTheCodeThatTheTextNames) {
  const absl::Status full = StreamedError("[request id: \"7\"] RESOURCE_EXHAUSTED: is full: 3");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(), "is full: 3");
  EXPECT_EQ(StreamedError("NOT_FOUND: x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StreamedError("UNAUTHENTICATED: x").code(), absl::StatusCode::kUnauthenticated);
  for (const char* other : {"OK: x", "", "[request id: 7", "NOT_FOUND", "BUSY: x"}) {
    EXPECT_EQ(StreamedError(other).code(), absl::StatusCode::kUnknown) << other;
    EXPECT_EQ(StreamedError(other).message(), other);
  }
}

TEST(CheckOip, RefusesByNameWhatTheProtocolCannotSay) {
  const auto why = [](const std::function<void(RequestSpec&)>& change) {
    return std::string(CheckOip(Int8(change)).message());
  };
  using Spec = RequestSpec;
  EXPECT_EQ(why([](Spec&) {}), "");
  EXPECT_THAT(why([](Spec& s) { s.set_operands("resident"); }),
              HasSubstr("request 1: operands is \"resident\"; with --protocol=oip it must be"));
  EXPECT_THAT(why([](Spec& s) { s.set_operands("shared-memory"); }),
              HasSubstr("operands is \"shared-memory\""));
  EXPECT_THAT(why([](Spec& s) { s.set_call("auto"); }),
              HasSubstr("call is \"auto\"; with --protocol=oip it must be unary or stream"));
  const auto stream = [](Spec& s) -> Spec& {
    s.set_call("stream");
    return s;
  };
  EXPECT_THAT(why([&](Spec& s) { stream(s).set_channels(2); }),
              HasSubstr("channels (--stripes) is \"2\""));
  EXPECT_THAT(why([&](Spec& s) { stream(s).set_chunk_bytes(9); }), HasSubstr("chunk_bytes is"));
  EXPECT_THAT(why([&](Spec& s) { stream(s).set_deadline("1s"); }), HasSubstr("deadline is \"1s\""));
  EXPECT_EQ(why([](Spec& s) { s.set_deadline("1s"); }), "");
  for (const char* type : {"tf32", "fp8-e4m3", "mxfp8-e4m3", "a=int4-g64-f16,b=bf16"}) {
    EXPECT_THAT(why([type](Spec& s) { s.set_type(type); }), HasSubstr("type is \"")) << type;
  }
  EXPECT_THAT(why([](Spec& s) { s.set_type("a=bf16,b=f32"); }), HasSubstr("must have one type"));
  const auto quantized = [](Spec& s) -> Spec& {
    s.set_type("a=bf16,b=mxfp4");
    return s;
  };
  EXPECT_THAT(why([&](Spec& s) { quantized(s); }), HasSubstr("--operands=resident-b"));
  EXPECT_EQ(why([&](Spec& s) { quantized(s).set_operands("resident-b"); }), "");
  EXPECT_THAT(why([](Spec& s) { s.set_output_type("int8"); }),
              HasSubstr("output_type is \"int8\""));
}

}  // namespace
}  // namespace gemmd::load
