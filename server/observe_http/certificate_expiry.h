// When a certificate ends.
#pragma once

#include <optional>
#include <string>

namespace gemmd {

// Returns the end of the first certificate of a PEM file, in seconds since 1970; none where it
// cannot be read.
std::optional<double> CertificateExpiry(const std::string& path);

}  // namespace gemmd
