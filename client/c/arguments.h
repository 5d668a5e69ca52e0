// The arguments of gemmd.h's functions, checked, as the values of the library. Each refusal is
// INVALID_ARGUMENT and names field, value and limit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/include/gemmd/gemmd.h"
#include "client/matrix.h"
#include "client/operand.h"

namespace gemmd::client::c {

absl::Status CheckGiven(absl::string_view field, bool is_given);
template <typename Pointer>
absl::Status CheckNotNull(absl::string_view field, Pointer pointer) {
  return CheckGiven(field, pointer != nullptr);
}
absl::Status CheckRange(absl::string_view field, std::int64_t value, std::int64_t least,
                        std::int64_t most);

// Larger ones are memory that nobody initialised.
inline constexpr std::size_t kMaxStructBytes = 4096;

// The size of a struct in the first version that had it: programs of then may call still.
template <typename Struct>
inline constexpr std::size_t kFirstBytes = sizeof(Struct);
template <>
inline constexpr std::size_t kFirstBytes<gemmd_client_options> = offsetof(gemmd_client_options,
                                                                          affinity_header);
template <>
inline constexpr std::size_t kFirstBytes<gemmd_matmul_options> = offsetof(gemmd_matmul_options,
                                                                          batch_count);
template <>
inline constexpr std::size_t kFirstBytes<gemmd_receipt> = offsetof(gemmd_receipt, products);
template <>
inline constexpr std::size_t kFirstBytes<gemmd_encoded_matmul> = offsetof(gemmd_encoded_matmul,
                                                                          d_count);

// A struct that begins with its size. The bytes of fields that this version does not know must be
// zero.
absl::Status CheckSized(absl::string_view field, const void* given, std::size_t first_bytes,
                        std::size_t known_bytes);

template <typename Struct>
absl::Status CheckSized(absl::string_view field, const Struct* given) {
  return CheckSized(field, given, kFirstBytes<Struct>, sizeof(Struct));
}

// A copy of a struct that was checked; what its caller does not know is zero.
template <typename Struct>
Struct KnownOf(const Struct& given) {
  Struct known{};
  std::memcpy(&known, &given, std::min(given.size, sizeof(Struct)));
  return known;
}

// Fills a struct that the caller made, as far as it is known to both.
template <typename Struct>
absl::Status FillSized(absl::string_view field, Struct values, Struct* given) {
  if (absl::Status s = CheckNotNull(field, given); !s.ok()) return s;
  if (absl::Status s =
          CheckRange(absl::StrCat(field, ".size"), static_cast<std::int64_t>(given->size),
                     kFirstBytes<Struct>, kMaxStructBytes);
      !s.ok()) {
    return s;
  }
  values.size = given->size;
  std::memcpy(given, &values, std::min(given->size, sizeof(Struct)));
  return absl::OkStatus();
}

// 0 is `otherwise`; at most a year.
absl::StatusOr<absl::Duration> DurationOf(absl::string_view field, std::int64_t milliseconds,
                                          absl::Duration otherwise);

absl::StatusOr<DataType> TypeOf(absl::string_view field, std::int32_t dtype);
std::int32_t NumberOf(DataType type);

// The format of an array whose data may be read or written.
absl::StatusOr<MatrixFormat> FormatOf(absl::string_view field, const gemmd_array* array);

// The name of a matrix on the server: "@weights", "weights", a handle or a digest.
absl::StatusOr<OperandName> NameOf(absl::string_view field, const char* name);
OperandName NameOf(const gemmd_matrix& matrix);

// An operand of products; the bytes of an array, which is the stack's first matrix, keep `owner`.
absl::StatusOr<Operand> OperandOf(absl::string_view field, const gemmd_operand* operand,
                                  const Stack& stack, const std::shared_ptr<const void>& owner);
// One that stays on the server.
absl::StatusOr<OperandName> ResidentOf(absl::string_view field, const gemmd_operand* operand);

}  // namespace gemmd::client::c
