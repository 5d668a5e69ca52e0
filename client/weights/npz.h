// The arrays of an .npz file, which np.savez writes: a zip archive of .npy files, each stored as it
// is. Texts and values; no files. Compressed members are refused, for they cannot be mapped.
//
//   members:            local header, name, extra field, the bytes of a .npy file
//   central directory:  for each a header with its sizes and place, name, extra field, comment
//   end record:         the directory's place; behind it a comment of at most 65,535 bytes
//
// An extra field of kind 1 has the sizes and places that need 64 bits, and so has an end record of
// its own. Checksums are not compared: they would take as long as to send the arrays.
//
// Source: PKWARE, APPNOTE.TXT 6.3.10, "4.3 General Format of a .ZIP file" and "4.5.3".
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/bytes.h"
#include "client/weights/weight_tensor.h"

namespace gemmd::client {

// INVALID_ARGUMENT names the member, the field, its value and the limit: the archive is cut, spans
// disks, or is none; a member is compressed, encrypted, no .npy file, not whole in the file or not
// apart from others; a name comes twice.
absl::StatusOr<std::vector<WeightTensor>> ParseNpz(const Bytes& file);

}  // namespace gemmd::client
