#include <cstring>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "client/c/arguments.h"
#include "client/c/begin.h"
#include "client/c/errors.h"
#include "client/c/handles.h"
#include "client/wire/codec.h"
#include "google/protobuf/util/json_util.h"

namespace gemmd::client::c {
namespace {

// Where D goes in the caller's memory.
struct Target {
  MatrixFormat format;
  Stack stack;
  char* data = nullptr;
};

struct Request {
  MatmulInputs inputs;
  MatmulOptions options;
  CallOptions call;
  std::optional<Target> target;
};

template <typename Enum>
absl::Status SetWord(absl::string_view field, std::int32_t given, Enum last, Enum& word) {
  if (absl::Status s = CheckRange(field, given, 0, static_cast<std::int64_t>(last)); !s.ok()) {
    return s;
  }
  word = static_cast<Enum>(given);
  return absl::OkStatus();
}

absl::Status SetType(absl::string_view field, std::int32_t given, std::optional<DataType>& type) {
  if (given == 0) return absl::OkStatus();
  const absl::StatusOr<DataType> known = TypeOf(field, given);
  if (!known.ok()) return known.status();
  type = *known;
  return absl::OkStatus();
}

absl::Status SetWords(const gemmd_matmul_options& given, MatmulOptions& ours) {
  ours.transpose_a = given.transpose_a;
  ours.transpose_b = given.transpose_b;
  ours.alpha = given.alpha;
  ours.beta = given.beta;
  ours.verification_vectors = given.verification_vectors;
  if (given.kernel != nullptr) ours.kernel = given.kernel;
  absl::Status s =
      SetWord("options.activation", given.activation, Activation::kSilu, ours.activation);
  if (s.ok()) {
    s = SetWord("options.determinism", given.determinism, Determinism::kFast, ours.determinism);
  }
  if (s.ok()) s = SetWord("options.priority", given.priority, v1::PRIORITY_LOW, ours.priority);
  if (s.ok()) s = SetType("options.output_type", given.output_type, ours.output_type);
  if (s.ok()) s = SetType("options.accumulate_type", given.accumulate_type, ours.accumulate_type);
  return s;
}

absl::Status SetStride(const char* field, std::int64_t given, std::int64_t count,
                       std::uint64_t& stride) {
  if (given != 0 && count == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " is ", given, ", and options.batch_count is 0: a stride is of a batch"));
  }
  stride = static_cast<std::uint64_t>(given);
  return CheckRange(field, given, 0, std::numeric_limits<std::int64_t>::max());
}

absl::Status SetBatch(const gemmd_matmul_options& given, std::optional<Batch>& ours) {
  constexpr std::int64_t kMostProducts = 1 << 24;  // gemm.proto's
  const std::int64_t count = given.batch_count;
  absl::Status s = CheckRange("options.batch_count", count, 0, kMostProducts);
  Batch batch;
  batch.count = static_cast<std::uint64_t>(count);
  if (s.ok()) s = SetStride("options.a_batch_stride", given.a_batch_stride, count, batch.a_stride);
  if (s.ok()) s = SetStride("options.b_batch_stride", given.b_batch_stride, count, batch.b_stride);
  if (s.ok()) s = SetStride("options.c_batch_stride", given.c_batch_stride, count, batch.c_stride);
  if (s.ok()) {
    s = SetStride("options.bias_batch_stride", given.bias_batch_stride, count, batch.bias_stride);
  }
  if (s.ok() && count != 0) ours = batch;
  return s;
}

// The results in the caller's memory.
absl::StatusOr<Stack> TargetStack(const gemmd_matmul_options& given, const MatrixFormat& format) {
  Stack stack;
  absl::Status s =
      SetStride("options.d_batch_stride", given.d_batch_stride, given.batch_count, stack.stride);
  if (!s.ok()) return s;
  if (given.batch_count == 0) return Stack();
  stack.count = static_cast<std::uint64_t>(given.batch_count);
  if (stack.stride == 0) stack.stride = format.outer() * format.stride();
  const absl::StatusOr<std::uint64_t> size = SizeBytes(format, stack);
  if (size.ok()) return stack;
  return absl::InvalidArgumentError(absl::StrCat("options.d: ", size.status().message()));
}

absl::Status SetDestination(const gemmd_matmul_options& given, Request& request) {
  const auto lease = DurationOf("options.lease_ms", given.lease_ms, absl::ZeroDuration());
  if (!lease.ok()) return lease.status();
  if (given.keep_on_server) {
    if (given.d != nullptr) {
      return absl::InvalidArgumentError(
          "options.keep_on_server is true, and options.d is given: D goes to one place");
    }
    request.options.destination = KeepResult{given.lease_ms == 0 ? Lease() : Lease(*lease)};
    return absl::OkStatus();
  }
  if (given.lease_ms != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("options.lease_ms is ", given.lease_ms,
                     ", and options.keep_on_server is false: it is of a D that stays"));
  }
  if (given.d == nullptr) return absl::OkStatus();
  const absl::StatusOr<MatrixFormat> format = FormatOf("options.d", given.d);
  if (!format.ok()) return format.status();
  std::optional<DataType>& type = request.options.output_type;
  if (type.has_value() && *type != format->type) {
    return absl::InvalidArgumentError(absl::StrCat("options.output_type is ", given.output_type,
                                                   ": options.d has dtype ", given.d->dtype));
  }
  type = format->type;
  request.options.output_order = format->order;
  const absl::StatusOr<Stack> stack = TargetStack(given, *format);
  if (!stack.ok()) return stack.status();
  request.target = Target{*format, *stack, static_cast<char*>(given.d->data)};
  return absl::OkStatus();
}

// Compares a dimension of options.d with that of D, where it is known.
absl::Status CheckLength(absl::string_view name, std::uint64_t given,
                         std::optional<std::uint64_t> actual) {
  if (!actual.has_value() || *actual == given) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("options.d.", name, " is ", given, ": D has ", *actual));
}

absl::Status CheckTarget(const Request& request) {
  if (!request.target.has_value()) return absl::OkStatus();
  const MatrixFormat* const a = FormatOf(request.inputs.a);
  const MatrixFormat* const b = FormatOf(request.inputs.b);
  std::optional<std::uint64_t> rows;
  std::optional<std::uint64_t> columns;
  if (a != nullptr) rows = request.options.transpose_a ? a->columns : a->rows;
  if (b != nullptr) columns = request.options.transpose_b ? b->rows : b->columns;
  if (absl::Status s = CheckLength("rows", request.target->format.rows, rows); !s.ok()) return s;
  return CheckLength("columns", request.target->format.columns, columns);
}

absl::StatusOr<Request> RequestOf(const gemmd_client& client, const gemmd_operand* a,
                                  const gemmd_operand* b, const gemmd_matmul_options* options,
                                  const std::shared_ptr<const void>& owner) {
  gemmd_matmul_options given = GEMMD_MATMUL_OPTIONS_INIT;
  if (options != nullptr) {
    if (absl::Status s = CheckSized("options", options); !s.ok()) return s;
    given = KnownOf(*options);
  }
  std::optional<Batch> asked;
  if (absl::Status s = SetBatch(given, asked); !s.ok()) return s;
  const Batch batch = asked.value_or(Batch());
  const auto stack = [&batch](std::uint64_t stride) { return Stack{batch.count, stride}; };
  absl::StatusOr<Operand> a_operand = OperandOf("a", a, stack(batch.a_stride), owner);
  if (!a_operand.ok()) return a_operand.status();
  absl::StatusOr<Operand> b_operand = OperandOf("b", b, stack(batch.b_stride), owner);
  if (!b_operand.ok()) return b_operand.status();
  Request request{{*std::move(a_operand), *std::move(b_operand)}, {}, {}, std::nullopt};
  request.options.batch = asked;
  if (given.c != nullptr) {
    absl::StatusOr<Operand> c = OperandOf("options.c", given.c, stack(batch.c_stride), owner);
    if (!c.ok()) return c.status();
    request.inputs.c = *std::move(c);
  } else if (given.beta != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("options.beta is ", given.beta, ", and options.c is NULL: it is needed"));
  }
  if (given.bias != nullptr) {
    absl::StatusOr<Operand> bias =
        OperandOf("options.bias", given.bias, stack(batch.bias_stride), owner);
    if (!bias.ok()) return bias.status();
    request.inputs.bias = *std::move(bias);
  }
  if (absl::Status s = SetWords(given, request.options); !s.ok()) return s;
  if (absl::Status s = SetDestination(given, request); !s.ok()) return s;
  const auto timeout = DurationOf("options.timeout_ms", given.timeout_ms, client.timeout);
  if (!timeout.ok()) return timeout.status();
  request.call.timeout = *timeout;
  if (absl::Status s = CheckTarget(request); !s.ok()) return s;
  return request;
}

// Copies tightly packed matrices line by line.
absl::Status CopyTo(const Target& target, const Matrix& d) {
  if (absl::Status s = CheckLength("rows", target.format.rows, d.format().rows); !s.ok()) return s;
  if (absl::Status s = CheckLength("columns", target.format.columns, d.format().columns); !s.ok()) {
    return s;
  }
  if (d.format().has_no_elements()) return absl::OkStatus();
  const std::size_t element = static_cast<std::size_t>(SizeBits(target.format.type)) / 8;
  const std::size_t line = d.format().inner() * element;
  const std::size_t step = target.format.stride() * element;
  for (std::uint64_t k = 0; k < d.stack().count; ++k) {
    const char* const from = d.view(k).bytes().data();
    char* const to = target.data + k * target.stack.stride * element;
    for (std::uint64_t i = 0; i < d.format().outer(); ++i) {
      std::memcpy(to + i * step, from + i * line, line);
    }
  }
  return absl::OkStatus();
}

std::string JsonOf(const Receipt& receipt) {
  std::string server;
  google::protobuf::util::JsonPrintOptions print;
  print.always_print_primitive_fields = true;
  print.preserve_proto_field_names = true;
  // It is a message of plain fields, whose printing cannot fail.
  static_cast<void>(google::protobuf::util::MessageToJsonString(receipt.server, &server, print));
  const auto us = [](absl::Duration duration) { return absl::ToDoubleMicroseconds(duration); };
  const ClientTimes& times = receipt.client;
  return absl::StrCat("{\"server\":", server, ",\"client\":{\"attempts\":", times.attempts,
                      ",\"encode_us\":", us(times.encode), ",\"waited_us\":", us(times.waited),
                      ",\"round_trip_us\":", us(times.round_trip), ",\"wire_us\":", us(times.wire),
                      ",\"decode_us\":", us(times.decode), ",\"total_us\":", us(times.total), "}}");
}

Outcome ResultOf(absl::StatusOr<Product> product, const std::optional<Target>& target) {
  if (!product.ok()) return product.status();
  auto result = std::make_unique<gemmd_result>();
  result->format = product->format;
  result->handle = std::move(product->handle);
  result->receipt_json = JsonOf(product->receipt);
  result->receipt = std::move(product->receipt);
  if (!target.has_value()) {
    result->matrix = std::move(product->d);
  } else if (absl::Status s = CopyTo(*target, *product->d); !s.ok()) {
    return s;
  }
  return result;
}

// A request's target is known when it has been made, and needed when the product is here.
struct Making {
  Make make;
  Finish finish;
};

Making MakingOf(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                const gemmd_matmul_options* options) {
  const auto target = std::make_shared<std::optional<Target>>();
  return {
      [=](const std::shared_ptr<const void>& owner) -> absl::StatusOr<Start> {
        absl::StatusOr<Request> request = RequestOf(*client, a, b, options, owner);
        if (!request.ok()) return request.status();
        *target = request->target;
        return [client, request = *std::move(request)](Client::MatmulDone done) mutable {
          return client->client.MatmulAsync(std::move(request.inputs), request.options,
                                            request.call, std::move(done));
        };
      },
      [target](absl::StatusOr<Product> product) { return ResultOf(std::move(product), *target); }};
}

absl::Status Multiply(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                      const gemmd_matmul_options* options, gemmd_result** result) {
  if (absl::Status s = CheckNotNull("result", result); !s.ok()) return s;
  *result = nullptr;
  if (IsInCallback()) {
    return absl::FailedPreconditionError("a callback cannot call a function that waits");
  }
  // Shared, because the waiter may be gone before set_value has returned.
  const auto outcome = std::make_shared<std::promise<Outcome>>();
  Making making = MakingOf(client, a, b, options);
  absl::Status begun = Begin(
      client, making.make, std::move(making.finish),
      [outcome](Outcome ended) { outcome->set_value(std::move(ended)); }, nullptr);
  if (!begun.ok()) return begun;
  Outcome ended = outcome->get_future().get();
  if (!ended.ok()) return ended.status();
  *result = ended->release();
  return absl::OkStatus();
}

absl::Status MultiplyAsync(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                           const gemmd_matmul_options* options, gemmd_matmul_callback callback,
                           void* context, gemmd_call** call) {
  Making making = MakingOf(client, a, b, options);
  return BeginAsync(client, making.make, std::move(making.finish), callback, context, call);
}

absl::Status Estimate(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                      const gemmd_matmul_options* options, std::int64_t timeout_ms,
                      gemmd_estimated* given) {
  // Before the server is asked in vain.
  gemmd_estimated values = GEMMD_ESTIMATED_INIT;
  if (absl::Status s = FillSized("estimated", values, given); !s.ok()) return s;
  const absl::StatusOr<WaitingCall> waiting = WaitingCall::Begin(client);
  if (!waiting.ok()) return waiting.status();
  absl::StatusOr<Request> request = RequestOf(*client, a, b, options, nullptr);
  if (!request.ok()) return request.status();
  const auto timeout = DurationOf("timeout_ms", timeout_ms, client->timeout);
  if (!timeout.ok()) return timeout.status();
  CallOptions call;
  call.timeout = *timeout;
  const auto encoded = Encode(std::move(request->inputs), request->options);
  if (!encoded->fault.ok()) return encoded->fault;
  v1::EstimateRequest asked;
  *asked.mutable_header() = encoded->header;
  const absl::StatusOr<v1::EstimateResponse> told = client->client.Estimate(asked, call);
  if (!told.ok()) return told.status();
  values.receive_us = told->receive_us();
  values.queue_us = told->queue_us();
  values.device_us = told->device_us();
  values.send_us = told->send_us();
  values.total_us = told->total_us();
  values.flops = told->flops();
  values.receive_bytes = told->receive_bytes();
  values.send_bytes = told->send_bytes();
  values.receive_is_measured = told->receive_is_measured();
  values.send_is_measured = told->send_is_measured();
  return FillSized("estimated", values, given);
}

double OrNan(bool is_known, double value) {
  return is_known ? value : std::numeric_limits<double>::quiet_NaN();
}

double Exposed(const v1::Receipt& receipt, v1::StageName name) {
  double sum = 0;
  for (const v1::Stage& stage : receipt.stages()) {
    if (stage.name() == name) sum += stage.exposed_us();
  }
  return sum;
}

absl::Status FillReceipt(const gemmd_result* result, gemmd_receipt* given) {
  if (absl::Status s = CheckNotNull("result", result); !s.ok()) return s;
  if (!result->receipt.has_value()) {
    return absl::FailedPreconditionError("the result is a matrix that was brought: no product");
  }
  const v1::Receipt& server = result->receipt->server;
  const ClientTimes& client = result->receipt->client;
  gemmd_receipt values = GEMMD_RECEIPT_INIT;
  values.request_id = server.request_id();
  values.device = server.device().c_str();
  values.kernel = server.kernel().c_str();
  values.plan = server.plan().c_str();
  values.numerics_id = server.numerics_id().c_str();
  values.server_total_us = server.total_us();
  values.compute_us = Exposed(server, v1::COMPUTE);
  values.queue_us = Exposed(server, v1::QUEUE);
  values.total_us = absl::ToDoubleMicroseconds(client.total);
  values.round_trip_us = absl::ToDoubleMicroseconds(client.round_trip);
  values.wire_us = absl::ToDoubleMicroseconds(client.wire);
  values.waited_us = absl::ToDoubleMicroseconds(client.waited);
  values.flops = server.flops();
  values.verification_residual =
      OrNan(server.has_verification_residual(), server.verification_residual());
  values.error_bound = OrNan(server.has_error_bound(), server.error_bound());
  values.joules = OrNan(server.has_joules(), server.joules());
  values.batch_requests = server.batch_requests();
  values.batch_rows = server.batch_rows();
  values.payload_bytes_in = server.payload_bytes_in();
  values.payload_bytes_out = server.payload_bytes_out();
  values.attempts = client.attempts;
  values.products = server.products();
  return FillSized("receipt", values, given);
}

absl::Status FillArray(const gemmd_result* result, gemmd_array* given) {
  if (absl::Status s = CheckNotNull("result", result); !s.ok()) return s;
  if (!result->matrix.has_value()) {
    return absl::FailedPreconditionError(result->handle.empty() ? "D went to options.d"
                                                                : "D stays on the server");
  }
  const MatrixFormat& format = result->matrix->format();
  const bool is_row_major = format.order == Order::kRowMajor;
  gemmd_array values = GEMMD_ARRAY_INIT;
  values.data = const_cast<char*>(result->matrix->bytes().data());
  values.dtype = NumberOf(format.type);
  values.rows = static_cast<std::int64_t>(format.rows);
  values.columns = static_cast<std::int64_t>(format.columns);
  values.row_stride = is_row_major ? static_cast<std::int64_t>(format.stride()) : 1;
  values.column_stride = is_row_major ? 1 : static_cast<std::int64_t>(format.stride());
  return FillSized("array", values, given);
}

absl::Status MatrixOf(const gemmd_result* result, gemmd_matrix** matrix) {
  if (absl::Status s = CheckNotNull("matrix", matrix); !s.ok()) return s;
  *matrix = nullptr;
  if (absl::Status s = CheckNotNull("result", result); !s.ok()) return s;
  if (result->handle.empty()) {
    return absl::FailedPreconditionError("D does not stay on the server: ask for keep_on_server");
  }
  *matrix = new gemmd_matrix{std::nullopt, result->format, result->handle, {}};
  return absl::OkStatus();
}

}  // namespace
}  // namespace gemmd::client::c

namespace c = gemmd::client::c;

extern "C" {

gemmd_code gemmd_matmul(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                        const gemmd_matmul_options* options, gemmd_result** result,
                        gemmd_error** error) {
  return c::Guarded(error, [&] { return c::Multiply(client, a, b, options, result); });
}

gemmd_code gemmd_matmul_async(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                              const gemmd_matmul_options* options, gemmd_matmul_callback callback,
                              void* context, gemmd_call** call, gemmd_error** error) {
  return c::Guarded(
      error, [&] { return c::MultiplyAsync(client, a, b, options, callback, context, call); });
}

void gemmd_call_cancel(gemmd_call* call) {
  if (call != nullptr && call->flight != nullptr) call->flight->Cancel();
}

void gemmd_call_free(gemmd_call* call) { delete call; }

gemmd_code gemmd_result_array(const gemmd_result* result, gemmd_array* array, gemmd_error** error) {
  return c::Guarded(error, [&] { return c::FillArray(result, array); });
}

gemmd_code gemmd_result_matrix(const gemmd_result* result, gemmd_matrix** matrix,
                               gemmd_error** error) {
  return c::Guarded(error, [&] { return c::MatrixOf(result, matrix); });
}

gemmd_code gemmd_result_receipt(const gemmd_result* result, gemmd_receipt* receipt,
                                gemmd_error** error) {
  return c::Guarded(error, [&] { return c::FillReceipt(result, receipt); });
}

gemmd_code gemmd_estimate(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                          const gemmd_matmul_options* options, int64_t timeout_ms,
                          gemmd_estimated* estimated, gemmd_error** error) {
  return c::Guarded(error,
                    [&] { return c::Estimate(client, a, b, options, timeout_ms, estimated); });
}

const char* gemmd_result_receipt_json(const gemmd_result* result) {
  return result == nullptr || !result->receipt.has_value() ? nullptr : result->receipt_json.c_str();
}

void gemmd_result_free(gemmd_result* result) { delete result; }

}  // extern "C"
