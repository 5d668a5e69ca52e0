// The table of who holds what.
#pragma once

#include <string>

#include "gemmd/v1/admin.pb.h"
#include "google/protobuf/repeated_field.h"

namespace gemmd::cli {

// One row each; empty where there are none.
std::string DescribeHoldings(const google::protobuf::RepeatedPtrField<v1::Holding>& holdings);

}  // namespace gemmd::cli
