// The form in which servers take a layer.
#pragma once

#include <cstdint>

#include "client/weights/layers/layer.h"

namespace gemmd::client {

// Sets `format` to the one that takes the fewest bytes of those that have all of such a layer's
// values: its scales may be repeated for smaller blocks, and codes and scales kept in wider types.
// Else sets `why`, with the closest. Reads no bytes. Leaves a layer that has `why` as it is.
void FindForm(std::uint64_t lines, std::uint64_t k, Layer& layer);

}  // namespace gemmd::client
