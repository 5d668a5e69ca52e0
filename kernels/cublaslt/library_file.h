// Finds and opens a shared library at run time.
#pragma once

#include <string>
#include <vector>

namespace gemmd::cublaslt {

// Folders where NVIDIA's packages put their libraries, in the order to try: CUDA_HOME and
// CUDA_PATH, the toolkit's usual places, Python wheels of this machine and of VIRTUAL_ENV.
// Patterns are expanded, so that each folder exists.
std::vector<std::string> CudaLibraryFolders();

struct OpenedLibrary {
  void* handle = nullptr;  // never closed; null: not opened
  std::string path;        // as it was opened
  std::string failure;     // one line: why it was not
};

// Tries the loader's own paths (LD_LIBRARY_PATH, ld.so.cache) and then `folders`. A file
// that exists and does not load is named with the loader's reason.
OpenedLibrary OpenLibrary(const std::string& name, const std::vector<std::string>& folders);

}  // namespace gemmd::cublaslt
