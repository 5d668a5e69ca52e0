// The contents of files by which server and client know each other.
#pragma once

#include <string>

#include "client/blas/settings.h"

namespace gemmd::blas {

struct Credentials {
  std::string token;
  std::string root_certificates;
  std::string client_certificate;
  std::string client_key;
};

// Returns false, and says why, where a file cannot be read, holds no token, or holds one that would
// go to another host in plain text.
bool ReadCredentials(const Settings& settings, Credentials& credentials);

}  // namespace gemmd::blas
