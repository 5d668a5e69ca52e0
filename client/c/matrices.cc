#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/strip.h"
#include "client/c/arguments.h"
#include "client/c/errors.h"
#include "client/c/handles.h"

namespace gemmd::client::c {
namespace {

// A copy of an array, tightly packed.
absl::StatusOr<Matrix> CopyOf(const gemmd_array& array, const MatrixFormat& format) {
  MatrixFormat packed = format;
  packed.leading_dimension = 0;
  const absl::StatusOr<std::uint64_t> size = SizeBytes(packed);
  if (!size.ok()) return size.status();
  Buffer buffer = Buffer::Allocate(*size);
  const std::size_t element = static_cast<std::size_t>(SizeBits(format.type)) / 8;
  const std::size_t line = packed.inner() * element;
  const std::size_t step = format.stride() * element;
  const char* const data = static_cast<const char*>(array.data);
  for (std::uint64_t i = 0; *size > 0 && i < packed.outer(); ++i) {
    std::memcpy(buffer.data() + i * line, data + i * step, line);
  }
  return Matrix::Create(packed, std::move(buffer).Freeze(*size));
}

absl::Status PutOperand(gemmd_client& client, InlineOperand operand, std::int64_t lease_ms,
                        std::int64_t timeout_ms, gemmd_matrix** matrix) {
  const auto lease = DurationOf("lease_ms", lease_ms, absl::ZeroDuration());
  if (!lease.ok()) return lease.status();
  CallOptions call;
  const auto timeout = DurationOf("timeout_ms", timeout_ms, client.timeout);
  if (!timeout.ok()) return timeout.status();
  call.timeout = *timeout;
  absl::StatusOr<OperandSource> source = OperandSource::Create(std::move(operand));
  if (!source.ok()) return source.status();
  const absl::StatusOr<v1::ResidentOperand> resident =
      client.operands.Put(*source, lease_ms == 0 ? Lease() : Lease(*lease), call);
  if (!resident.ok()) return resident.status();
  *matrix = new gemmd_matrix{*source, source->data().format(), resident->handle(),
                             absl::BytesToHexString(source->digest())};
  return absl::OkStatus();
}

absl::Status Put(gemmd_client* client, const gemmd_array* array, std::int64_t lease_ms,
                 std::int64_t timeout_ms, gemmd_matrix** matrix) {
  if (absl::Status s = CheckNotNull("matrix", matrix); !s.ok()) return s;
  *matrix = nullptr;
  const absl::StatusOr<WaitingCall> waiting = WaitingCall::Begin(client);
  if (!waiting.ok()) return waiting.status();
  const absl::StatusOr<MatrixFormat> format = FormatOf("array", array);
  if (!format.ok()) return format.status();
  absl::StatusOr<Matrix> copy = CopyOf(*array, *format);
  if (!copy.ok()) return copy.status();
  return PutOperand(*client, InlineOperand(*std::move(copy)), lease_ms, timeout_ms, matrix);
}

absl::Status PutTensor(gemmd_client* client, const gemmd_tensor* tensor, std::int64_t lease_ms,
                       std::int64_t timeout_ms, gemmd_matrix** matrix) {
  if (absl::Status s = CheckNotNull("matrix", matrix); !s.ok()) return s;
  *matrix = nullptr;
  const absl::StatusOr<WaitingCall> waiting = WaitingCall::Begin(client);
  if (!waiting.ok()) return waiting.status();
  if (absl::Status s = CheckNotNull("tensor", tensor); !s.ok()) return s;
  return PutOperand(*client, tensor->operand, lease_ms, timeout_ms, matrix);
}

// A call about one matrix on the server.
struct NamedCall {
  OperandName name;
  CallOptions call;
};

absl::StatusOr<NamedCall> NamedCallOf(const gemmd_client& client, const gemmd_operand* operand,
                                      std::int64_t timeout_ms) {
  absl::StatusOr<OperandName> name = ResidentOf("operand", operand);
  if (!name.ok()) return name.status();
  const auto timeout = DurationOf("timeout_ms", timeout_ms, client.timeout);
  if (!timeout.ok()) return timeout.status();
  NamedCall named{*std::move(name), {}};
  named.call.timeout = *timeout;
  return named;
}

absl::Status Get(gemmd_client* client, const gemmd_operand* operand, std::int64_t timeout_ms,
                 gemmd_result** result) {
  if (absl::Status s = CheckNotNull("result", result); !s.ok()) return s;
  *result = nullptr;
  const absl::StatusOr<WaitingCall> waiting = WaitingCall::Begin(client);
  if (!waiting.ok()) return waiting.status();
  const absl::StatusOr<NamedCall> named = NamedCallOf(*client, operand, timeout_ms);
  if (!named.ok()) return named.status();
  absl::StatusOr<InlineOperand> brought = client->operands.Get(named->name, named->call);
  if (!brought.ok()) return brought.status();
  if (brought->scales.has_value() || !TypeOf("type", NumberOf(brought->data.format().type)).ok()) {
    return absl::UnimplementedError(
        absl::StrCat("operand is ", ToString(brought->data.format()),
                     " with scales or packed elements: this interface brings plain matrices"));
  }
  auto told = std::make_unique<gemmd_result>();
  told->format = brought->data.format();
  told->matrix = std::move(brought->data);
  *result = told.release();
  return absl::OkStatus();
}

absl::Status SetName(gemmd_client* client, const gemmd_operand* operand, const char* name,
                     bool replace, std::int64_t timeout_ms) {
  const absl::StatusOr<WaitingCall> waiting = WaitingCall::Begin(client);
  if (!waiting.ok()) return waiting.status();
  const absl::StatusOr<NamedCall> named = NamedCallOf(*client, operand, timeout_ms);
  if (!named.ok()) return named.status();
  const absl::StatusOr<OperandName> checked = NameOf("name", name);
  if (!checked.ok()) return checked.status();
  if (checked->name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("name is ", name, ": it has the form of a handle or a digest"));
  }
  return client->operands.SetName(named->name, checked->name, replace, named->call).status();
}

absl::Status Release(gemmd_client* client, const gemmd_operand* operand, std::int64_t timeout_ms) {
  const absl::StatusOr<WaitingCall> waiting = WaitingCall::Begin(client);
  if (!waiting.ok()) return waiting.status();
  const absl::StatusOr<NamedCall> named = NamedCallOf(*client, operand, timeout_ms);
  if (!named.ok()) return named.status();
  return client->operands.Release(named->name, named->call);
}

}  // namespace
}  // namespace gemmd::client::c

namespace c = gemmd::client::c;

extern "C" {

gemmd_code gemmd_put(gemmd_client* client, const gemmd_array* array, int64_t lease_ms,
                     int64_t timeout_ms, gemmd_matrix** matrix, gemmd_error** error) {
  return c::Guarded(error, [&] { return c::Put(client, array, lease_ms, timeout_ms, matrix); });
}

gemmd_code gemmd_put_tensor(gemmd_client* client, const gemmd_tensor* tensor, int64_t lease_ms,
                            int64_t timeout_ms, gemmd_matrix** matrix, gemmd_error** error) {
  return c::Guarded(error,
                    [&] { return c::PutTensor(client, tensor, lease_ms, timeout_ms, matrix); });
}

gemmd_code gemmd_get(gemmd_client* client, const gemmd_operand* operand, int64_t timeout_ms,
                     gemmd_result** result, gemmd_error** error) {
  return c::Guarded(error, [&] { return c::Get(client, operand, timeout_ms, result); });
}

gemmd_code gemmd_set_name(gemmd_client* client, const gemmd_operand* operand, const char* name,
                          bool replace, int64_t timeout_ms, gemmd_error** error) {
  return c::Guarded(error, [&] { return c::SetName(client, operand, name, replace, timeout_ms); });
}

gemmd_code gemmd_release(gemmd_client* client, const gemmd_operand* operand, int64_t timeout_ms,
                         gemmd_error** error) {
  return c::Guarded(error, [&] { return c::Release(client, operand, timeout_ms); });
}

const char* gemmd_matrix_handle(const gemmd_matrix* matrix) {
  return matrix == nullptr ? "" : matrix->handle.c_str();
}

const char* gemmd_matrix_digest(const gemmd_matrix* matrix) {
  return matrix == nullptr ? "" : matrix->digest.c_str();
}

int32_t gemmd_matrix_dtype(const gemmd_matrix* matrix) {
  return matrix == nullptr ? 0 : c::NumberOf(matrix->format.type);
}

int64_t gemmd_matrix_rows(const gemmd_matrix* matrix) {
  return matrix == nullptr ? 0 : static_cast<int64_t>(matrix->format.rows);
}

int64_t gemmd_matrix_columns(const gemmd_matrix* matrix) {
  return matrix == nullptr ? 0 : static_cast<int64_t>(matrix->format.columns);
}

void gemmd_matrix_free(gemmd_matrix* matrix) { delete matrix; }

}  // extern "C"
