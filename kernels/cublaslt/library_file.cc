#include "kernels/cublaslt/library_file.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gemmd::cublaslt {
namespace {

void AppendMatches(const std::string& pattern, std::vector<std::string>* folders) {
  glob_t matches = {};
  if (glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &matches) == 0) {
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) {
      const std::string folder = matches.gl_pathv[i];
      if (std::find(folders->begin(), folders->end(), folder) == folders->end()) {
        folders->push_back(folder);
      }
    }
  }
  globfree(&matches);
}

}  // namespace

std::vector<std::string> CudaLibraryFolders() {
  std::vector<std::string> folders;
  const auto append_toolkit = [&folders](const std::string& root) {
    for (const char* folder : {"/lib64", "/lib", "/targets/x86_64-linux/lib"}) {
      AppendMatches(absl::StrCat(root, folder), &folders);
    }
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* root = std::getenv(variable);
    if (root != nullptr && *root != '\0') append_toolkit(root);
  }
  append_toolkit("/usr/local/cuda");
  append_toolkit("/usr/local/cuda-13*");
  AppendMatches("/usr/lib/x86_64-linux-gnu", &folders);
  const auto append_wheels = [&folders](const std::string& root) {
    for (const char* package : {"cu13", "cublas"}) {
      AppendMatches(absl::StrCat(root, "/lib/python3*/*-packages/nvidia/", package, "/lib"),
                    &folders);
    }
  };
  const char* environment = std::getenv("VIRTUAL_ENV");
  if (environment != nullptr && *environment != '\0') append_wheels(environment);
  append_wheels("/usr/local");
  append_wheels("/usr");
  return folders;
}

OpenedLibrary OpenLibrary(const std::string& name, const std::vector<std::string>& folders) {
  OpenedLibrary library;
  const auto open = [&library](const std::string& path) {
    library.handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library.handle != nullptr) library.path = path;
    return library.handle != nullptr;
  };
  if (open(name)) return library;
  std::vector<std::string> reasons;
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (access(path.c_str(), F_OK) != 0) continue;
    if (open(path)) return library;
    reasons.push_back(dlerror());
  }
  library.failure = absl::StrCat(
      "cannot open ", name, ": ",
      reasons.empty() ? absl::StrCat("it is neither in the loader's paths (LD_LIBRARY_PATH) nor "
                                     "in ",
                                     folders.empty() ? "CUDA_HOME" : absl::StrJoin(folders, ", "))
                      : absl::StrJoin(reasons, "; "));
  return library;
}

}  // namespace gemmd::cublaslt
