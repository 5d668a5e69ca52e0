// Operands given as files: .npy, or raw bytes that the command line describes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numbers/types.h"
#include "client/cli/failure.h"
#include "client/matrix.h"
#include "client/names.h"

namespace gemmd::cli {

// The options --shape, --type, --order and --scale-layout. Each is [OPERAND=]VALUE, where OPERAND
// is a, b, c or bias; without it the value is for every operand that has none of its own.
//
// A file is raw exactly if its operand has a shape. --type is then required; on a .npy
// file it names what the file leaves open, and must agree with the rest.
class OperandFormats {
 public:
  // INVALID_ARGUMENT quotes what is wrong with the text.
  absl::Status AddShape(absl::string_view text);  // ROWSxCOLUMNS
  absl::Status AddType(absl::string_view text);
  absl::Status AddOrder(absl::string_view text);
  absl::Status AddScaleLayout(absl::string_view text);  // plain or blocked-128x4

  // `operand` is "a", "b", "c" or "bias"; a bias may have one dimension. With `may_be_stack` a .npy
  // file may have three: the matrix is a stack then, whose stride is not 0.
  Outcome Read(const std::string& operand, const std::string& path,
               std::optional<client::Matrix>& matrix, bool may_be_stack = false) const;

  // The format that the operand's --type names, if any, and whether its scales are in tiles.
  std::optional<QuantFormat> Format(const std::string& operand) const;
  bool IsTiled(const std::string& operand) const;
  // Returns whether its file is raw.
  bool IsRaw(const std::string& operand) const;
  // Returns whether any of these options names this very operand.
  bool HasOwn(const std::string& operand) const;

 private:
  using Shape = std::pair<std::uint64_t, std::uint64_t>;

  std::map<std::string, Shape> shapes_;  // by operand; "" is for all
  std::map<std::string, client::OperandType> types_;
  std::map<std::string, Order> orders_;
  std::map<std::string, bool> are_tiled_;
};

}  // namespace gemmd::cli
