// A tenant's quota for people.
#pragma once

#include "client/cli/views/table.h"
#include "gemmd/v1/admin.pb.h"

namespace gemmd::cli {

// Adds a row "quota" for each of its limits, with what is taken of it.
void AddQuota(const v1::TenantQuota& quota, Table* facts);

}  // namespace gemmd::cli
