#include "client/blas/here.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "client/blas/settings.h"

namespace gemmd::blas {
namespace {

// Returns whether the address is in the object that this function is in.
bool IsOurs(const void* address) {
  Dl_info ours{};
  Dl_info theirs{};
  return dladdr(reinterpret_cast<const void*>(&IsOurs), &ours) != 0 &&
         dladdr(address, &theirs) != 0 && ours.dli_fbase == theirs.dli_fbase;
}

// Names of the objects that are loaded, in their order. They are opened later: the loader holds a
// lock while it lists them, and another thread that opens one waits for that lock.
std::vector<std::string> Loaded() {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* context) {
        if (info->dlpi_name != nullptr && *info->dlpi_name != '\0') {
          static_cast<std::vector<std::string>*>(context)->emplace_back(info->dlpi_name);
        }
        return 0;
      },
      &names);
  return names;
}

// Returns the object's function of that name, or that of a library that it needs.
void* FindIn(const std::string& object, const char* name) {
  void* const handle = dlopen(object.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, name);
  if (found != nullptr && !IsOurs(found)) return found;  // and the handle keeps it loaded
  dlclose(handle);
  return nullptr;
}

}  // namespace

void* FindHere(const char* name) {
  void* const next = dlsym(RTLD_NEXT, name);
  if (next != nullptr && !IsOurs(next)) return next;
  for (const std::string& object : Loaded()) {
    if (void* const found = FindIn(object, name); found != nullptr) return found;
  }
  return nullptr;
}

void NobodyComputes(const char* name) {
  Say("%s was called, and no library of this process has it besides libgemmd_blas.so", name);
  std::abort();
}

}  // namespace gemmd::blas
