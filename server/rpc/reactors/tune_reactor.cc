#include "server/rpc/reactors/tune_reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/codec/decode.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr int kMaxShapes = 64;
constexpr std::uint32_t kMaxRepeats = 1000;

absl::StatusOr<Problem> DecodeProblem(const std::string& field, const v1::ProblemShape& shape,
                                      RequestLimits limits) {
  // Nothing of it travels: what a stream may carry may be tuned.
  limits.result_bytes = limits.request_bytes;
  struct Dimension {
    const char* name;
    std::uint64_t value;
  };
  for (const Dimension& each :
       {Dimension{".m", shape.m()}, Dimension{".n", shape.n()}, Dimension{".k", shape.k()}}) {
    if (each.value < 1 || each.value > limits.dimension) {
      return InvalidArgumentError(
          StrCat(field, each.name, " is ", each.value, "; it must be 1 to ", limits.dimension));
    }
  }
  const absl::StatusOr<MatmulCall> call = DecodeShape(field, shape);
  if (!call.ok()) return call.status();
  absl::StatusOr<Problem> problem = ValidateHeader(*call, limits);
  if (!problem.ok()) {
    return absl::Status(problem.status().code(), StrCat(field, ": ", problem.status().message()));
  }
  return problem;
}

v1::TuneResponse Encode(const TuningReport& report) {
  v1::TuneResponse response;
  response.set_device(report.device);
  for (const auto& candidates : report.problems) {
    v1::TunedShape* shape = response.add_shapes();
    for (const TunedCandidate& candidate : candidates) {
      v1::TunedCandidate* wire = shape->add_candidates();
      wire->set_kernel(candidate.kernel);
      wire->set_plan(candidate.plan);
      wire->set_measured_us(candidate.measured_us);
      wire->set_chosen(candidate.chosen);
      wire->set_rejection(candidate.rejection);
    }
  }
  return response;
}

}  // namespace

absl::StatusOr<TuningRequest> DecodeTune(const v1::TuneRequest& wire, const RequestLimits& limits) {
  if (wire.shapes_size() < 1 || wire.shapes_size() > kMaxShapes) {
    return InvalidArgumentError(
        StrCat("shapes has ", wire.shapes_size(), " entries; it must have 1 to ", kMaxShapes));
  }
  if (wire.repeats() > kMaxRepeats) {
    return InvalidArgumentError(
        StrCat("repeats is ", wire.repeats(), "; it must be 0 to ", kMaxRepeats));
  }
  TuningRequest request;
  if (wire.repeats() != 0) request.repeats = static_cast<int>(wire.repeats());
  for (int i = 0; i < wire.shapes_size(); ++i) {
    absl::StatusOr<Problem> problem =
        DecodeProblem(StrCat("shapes[", i, "]"), wire.shapes(i), limits);
    if (!problem.ok()) return problem.status();
    request.problems.push_back(*std::move(problem));
  }
  return request;
}

TuneReactor::TuneReactor(Tuner* tuner, const RequestLimits& limits, CallWatch* watch,
                         std::string tenant, grpc::CallbackServerContext* context)
    : RequestReactor(watch, context),
      tuner_(tuner),
      limits_(limits),
      tenant_(std::move(tenant)),
      id_(tuner->NextId()) {}

void TuneReactor::OnMessage(const grpc::ByteBuffer& message) {
  v1::TuneRequest wire;
  absl::Status status = ParseMessage(message, &wire);
  if (status.ok()) {
    absl::StatusOr<TuningRequest> tuning = DecodeTune(wire, limits_);
    status = tuning.status();
    if (tuning.ok()) {
      tuning->tenant = tenant_;
      status =
          tuner_->Start(id_, *std::move(tuning),
                        [this](const absl::StatusOr<TuningReport>& report) { OnFinished(report); });
    }
  }
  if (!status.ok()) Fail(status);
  // OnCancel() may have come before the tuner knew the call.
  if (context()->IsCancelled()) tuner_->Cancel(id_);
}

void TuneReactor::OnFinished(const absl::StatusOr<TuningReport>& report) {
  if (!report.ok()) return Fail(report.status());
  const grpc::Slice slice(Encode(*report).SerializeAsString());
  grpc::ByteBuffer message(&slice, 1);
  Answer(&message);
}

}  // namespace gemmd
