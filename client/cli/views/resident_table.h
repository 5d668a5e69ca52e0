// Matrices that the server keeps, for people.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/operands.h"
#include "gemmd/v1/operands.pb.h"

namespace gemmd::cli {

// Handles, digests and names as every command takes them: "@a1b2c3d4-7".
std::string ResidentTable(const std::vector<v1::ResidentOperand>& residents,
                          bool with_tenants = false);

// Takes a name with or without the @ that tells it from a file's.
client::OperandName ParseName(absl::string_view text);

}  // namespace gemmd::cli
