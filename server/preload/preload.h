// Matrices of files that a server has from its start on, under the names of their tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/wire/inline_operand.h"
#include "server/admission/validation.h"
#include "server/auth/policy.h"
#include "server/store/operand_store.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// A matrix of a file, which is open as long as this is there.
struct PreloadedMatrix {
  std::string name;  // the tensor's; of a file of one matrix, the file's without its ending
  std::function<absl::StatusOr<client::InlineOperand>()> read;
  std::uint64_t size_bytes = 0;  // of all planes, as read; 0: not known, of a file of one matrix
  std::function<void()> forget;  // gives back the memory that reading took of the file's mapping
};

struct PreloadedFile {
  std::string path;
  std::vector<PreloadedMatrix> matrices;
  std::size_t left_out = 0;  // tensors that have no form here, such as vectors
};

// Opens what the option operands.preload says: "PATH[:PATTERN],...". A path leads to a file of
// weights (client/weights), a container of `gemm quantize`, a .npy file, or a folder with such
// files, where an index of shards stands for its shards. A pattern (base/text/glob.h) takes those
// matrices whose names it matches. Reads headers alone.
//
// INVALID_ARGUMENT or NOT_FOUND names the path: there is no such file, it is not sound, or it has
// no such matrix. Danger: as of client::InputFile::Map().
absl::StatusOr<std::vector<PreloadedFile>> OpenPreload(absl::string_view option);

// The tenant that operands.preload_tenant names. INVALID_ARGUMENT: none can have that name.
absl::StatusOr<Tenant> PreloadTenant(const std::string& name, const Policy& policy);

// Makes them operands of the tenant's, whose leases do not end. CANCELLED once `is_stopped` returns
// true; several threads call it. Any other error names the file and the matrix: those of
// ValidateUpload(), OperandStore::BeginUpload() and SetName().
absl::Status Preload(const std::vector<PreloadedFile>& files, const Tenant& tenant,
                     const RequestLimits& limits, OperandStore* store,
                     const std::function<bool()>& is_stopped);

// Makes one of them an operand of the tenant's, as Preload() does. Another operand of its name
// loses that, and goes if it had no other. Errors are Preload()'s.
absl::Status PutAgain(const PreloadedFile& file, const PreloadedMatrix& matrix,
                      const Tenant& tenant, const RequestLimits& limits, OperandStore* store);

}  // namespace gemmd
