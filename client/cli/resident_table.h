// Matrices that the server keeps, for people.
#pragma once

#include <string>
#include <vector>

#include "gemmd/v1/operands.pb.h"

namespace gemmd::cli {

std::string ResidentTable(const std::vector<v1::ResidentOperand>& residents);

}  // namespace gemmd::cli
