#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "client/c/arguments.h"
#include "client/c/begin.h"
#include "client/c/errors.h"
#include "client/c/handles.h"
#include "client/wire/codec.h"
#include "client/wire/wire_types.h"

namespace gemmd::client::c {
namespace {

constexpr std::int64_t kYearUs = std::int64_t{365} * 24 * 3600 * 1000 * 1000;

absl::Status CheckBytes(const std::string& field, const void* data, std::uint64_t bytes,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  if (data == nullptr && bytes != 0) return CheckGiven(field, false);
  // Beyond the type's range it is negative here.
  return CheckRange(field + "_bytes", static_cast<std::int64_t>(bytes), 0, most);
}

absl::Status SetHeader(const gemmd_encoded_matmul& given, v1::MatmulHeader& header) {
  const std::int64_t most = std::numeric_limits<int>::max();  // protobuf's
  absl::Status s = CheckBytes("encoded.header", given.header, given.header_bytes, most);
  if (!s.ok()) return s;
  if (header.ParseFromArray(given.header, static_cast<int>(given.header_bytes))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("encoded.header is ", given.header_bytes,
                                                 " bytes that are no gemmd.v1.MatmulHeader"));
}

absl::Status SetPlanes(const gemmd_encoded_matmul& given, const std::shared_ptr<const void>& owner,
                       EncodedMatmul& matmul) {
  constexpr std::int64_t most = std::int64_t{v1::BIAS} * (v1::PlaneName_MAX + 1);
  absl::Status s = CheckRange("encoded.plane_count", given.plane_count, 0, most);
  if (s.ok()) s = CheckGiven("encoded.planes", given.planes != nullptr || given.plane_count == 0);
  for (std::int64_t i = 0; s.ok() && i < given.plane_count; ++i) {
    const gemmd_encoded_plane& plane = given.planes[i];
    const std::string field = absl::StrCat("encoded.planes.", i);
    s = CheckRange(field + ".operand", plane.operand, v1::A, v1::BIAS);
    if (s.ok()) s = CheckRange(field + ".plane", plane.plane, 0, v1::PlaneName_MAX);
    if (s.ok()) s = CheckBytes(field + ".data", plane.data, plane.data_bytes);
    if (!s.ok()) break;
    const absl::string_view bytes(static_cast<const char*>(plane.data), plane.data_bytes);
    matmul.planes.push_back({static_cast<v1::OperandName>(plane.operand),
                             static_cast<v1::PlaneName>(plane.plane), Bytes(owner, bytes)});
    matmul.payload_bytes += plane.data_bytes;
  }
  return s;
}

absl::Status SetExpected(const gemmd_encoded_matmul& given,
                         const std::shared_ptr<const void>& owner, EncodedMatmul& matmul) {
  MatrixFormat format;
  const absl::StatusOr<DataType> type = FromWire(static_cast<v1::DataType>(given.d_type));
  if (!type.ok() || SizeBits(*type) % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("encoded.d_type is ", given.d_type, ": it must be a type of whole bytes"));
  }
  format.type = *type;
  const auto most = static_cast<std::int64_t>(kMaxDimension);
  absl::Status s = CheckRange("encoded.d_rows", given.d_rows, 1, most);
  if (s.ok()) s = CheckRange("encoded.d_columns", given.d_columns, 1, most);
  if (!s.ok()) return s;
  format.rows = static_cast<std::uint64_t>(given.d_rows);
  format.columns = static_cast<std::uint64_t>(given.d_columns);
  format.order = given.d_is_column_major ? Order::kColumnMajor : Order::kRowMajor;
  const v1::StridedBatch& batch = matmul.header.batch();
  const auto count = static_cast<std::int64_t>(matmul.header.has_batch() ? batch.count() : 0);
  if (given.d_count != count || batch.output_stride() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("encoded.d_count is ", given.d_count, ": the header's batch has ", count,
                     " results, at stride ", batch.output_stride(), "; it must be 0"));
  }
  ExpectedResult& expected = matmul.expected;
  expected.products = static_cast<std::uint64_t>(given.d_count);
  expected.has_groups = batch.row_ends_size() != 0;
  const absl::StatusOr<std::uint64_t> bytes = SizeBytes(format, expected.StackOf(format));
  if (!bytes.ok()) return bytes.status();

  expected.rows = format.rows;
  expected.columns = format.columns;
  expected.type = format.type;
  expected.order = format.order;
  expected.stays = matmul.header.has_keep_result();
  if (expected.stays) return absl::OkStatus();
  if (s = CheckNotNull("encoded.d", given.d); !s.ok()) return s;
  auto* const d = static_cast<char*>(given.d);
  if (matmul.header.has_output()) {
    expected.shared = Bytes(owner, absl::string_view(d, *bytes));
  } else {
    // Kept by whoever may still write to it, as the operands' bytes are.
    const auto keeper = std::make_shared<std::shared_ptr<const void>>(owner);
    expected.into = [memory = Buffer::Of(std::shared_ptr<char>(keeper, d), *bytes)](
                        const MatrixFormat& /*format*/) { return memory; };
  }
  return absl::OkStatus();
}

absl::Status SetCall(const gemmd_encoded_matmul& given, const gemmd_client& client,
                     CallOptions& call) {
  RouteOptions route;
  absl::Status s = CheckRange("encoded.transport", given.transport, 0,
                              static_cast<std::int64_t>(Transport::kStream));
  if (s.ok()) s = CheckRange("encoded.channels", given.channels, 0, 64);
  if (s.ok() && given.chunk_bytes != 0) {
    s = CheckRange("encoded.chunk_bytes", given.chunk_bytes, 4096, 1 << 30);
  }
  if (s.ok()) s = CheckRange("encoded.timeout_us", given.timeout_us, 0, kYearUs);
  if (!s.ok()) return s;
  route.transport = static_cast<Transport>(given.transport);
  route.channels = given.channels;
  route.chunk_bytes = static_cast<std::uint64_t>(given.chunk_bytes);
  call.route = route;
  call.timeout = given.timeout_us == 0 ? client.timeout : absl::Microseconds(given.timeout_us);
  if (given.traceparent != nullptr) call.trace.traceparent = given.traceparent;
  if (given.tracestate != nullptr) call.trace.tracestate = given.tracestate;
  return absl::OkStatus();
}

absl::StatusOr<Start> MakeEncoded(gemmd_client* client, const gemmd_encoded_matmul* encoded,
                                  const std::shared_ptr<const void>& owner) {
  if (absl::Status s = CheckNotNull("encoded", encoded); !s.ok()) return s;
  if (absl::Status s = CheckSized("encoded", encoded); !s.ok()) return s;
  const gemmd_encoded_matmul given = KnownOf(*encoded);
  const auto matmul = std::make_shared<EncodedMatmul>();
  CallOptions call;
  absl::Status s = SetHeader(given, matmul->header);
  if (s.ok()) s = SetPlanes(given, owner, *matmul);
  if (s.ok()) s = SetExpected(given, owner, *matmul);
  if (s.ok()) s = SetCall(given, *client, call);
  if (!s.ok()) return s;
  return [client, call, matmul](Client::MatmulDone done) {
    return client->client.MatmulAsync(matmul, call,
                                      [done = std::move(done)](absl::StatusOr<Product> product) {
                                        // It refers to the caller's memory, and so would keep the
                                        // call from ending.
                                        if (product.ok()) product->d.reset();
                                        done(std::move(product));
                                      });
  };
}

Outcome EncodedResult(absl::StatusOr<Product> product) {
  if (!product.ok()) return product.status();
  v1::MatmulResponse response;
  *response.mutable_receipt() = product->receipt.server;
  response.set_handle(product->handle);
  SetPlane(product->format, response.mutable_d());
  auto result = std::make_unique<gemmd_result>();
  result->response = response.SerializeAsString();
  result->format = product->format;
  result->handle = std::move(product->handle);
  result->receipt = std::move(product->receipt);
  return result;
}

absl::Status FillRoute(const gemmd_result* result, gemmd_route* given) {
  if (absl::Status s = CheckNotNull("result", result); !s.ok()) return s;
  if (!result->receipt.has_value()) {
    return absl::FailedPreconditionError("the result is a matrix that was brought: no product");
  }
  const Route& route = result->receipt->route;
  gemmd_route values = GEMMD_ROUTE_INIT;
  values.transport = static_cast<std::int32_t>(route.transport);
  values.channels = route.channels;
  values.chunk_bytes = static_cast<std::int64_t>(route.chunk_bytes);
  return FillSized("route", values, given);
}

}  // namespace
}  // namespace gemmd::client::c

namespace c = gemmd::client::c;

extern "C" {

gemmd_code gemmd_matmul_encoded(gemmd_client* client, const gemmd_encoded_matmul* encoded,
                                gemmd_matmul_callback callback, void* context, gemmd_call** call,
                                gemmd_error** error) {
  return c::Guarded(error, [&] {
    return c::BeginAsync(
        client,
        [&](const std::shared_ptr<const void>& owner) {
          return c::MakeEncoded(client, encoded, owner);
        },
        &c::EncodedResult, callback, context, call);
  });
}

const void* gemmd_result_response(const gemmd_result* result, uint64_t* bytes) {
  const bool has_one = result != nullptr && !result->response.empty();
  if (bytes != nullptr) *bytes = has_one ? result->response.size() : 0;
  return has_one ? result->response.data() : nullptr;
}

gemmd_code gemmd_result_route(const gemmd_result* result, gemmd_route* route, gemmd_error** error) {
  return c::Guarded(error, [&] { return c::FillRoute(result, route); });
}

}  // extern "C"
