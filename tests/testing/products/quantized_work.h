// A random quantized product as a device takes it.
#pragma once

#include <string>

#include "server/device/device.h"
#include "tests/testing/products/quantized_product.h"

namespace gemmd::testing {

// Draws a small product of the format with a partner, either way round, with any epilogue.
QuantizedProduct DrawQuantizedProduct(const QuantFormat& format, Draws* draws, std::uint32_t seed);

// The product as a work; its planes stay the product's.
DeviceWork WorkOf(QuantizedProduct* product, const Plan& plan);

}  // namespace gemmd::testing
