// Names that tenants give to operands of a store.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "server/store/operand_store.h"

namespace gemmd {

absl::StatusOr<OperandStore::Named> OperandStore::SetName(const Tenant& tenant,
                                                          const OperandKey& key,
                                                          const std::string& name, bool replace) {
  std::shared_ptr<StoreHold> hold;
  while (true) {
    {
      const MutexLock lock(mutex_);
      const auto found = FindResidentLocked(tenant, key);
      if (found == entries_.end()) return NotFound(key, {});
      const auto taken = names_.find({tenant, name});
      const bool is_taken = taken != names_.end();
      const bool is_its_own = is_taken && taken->second == found->first;
      if (is_taken && !is_its_own && !replace) {
        return absl::AlreadyExistsError(absl::StrCat(
            "new_name is ", Quoted(name), ", which is the name of operand ",
            entries_.at(taken->second).handle, "; with replace it becomes this one's"));
      }
      if (!is_its_own && found->second.names.size() >= kMaxNames) {
        return absl::InvalidArgumentError(absl::StrCat("new_name is ", Quoted(name), "; operand ",
                                                       found->second.handle, " has ", kMaxNames,
                                                       " names, and may have no more"));
      }
      if (is_taken || hold != nullptr) return GiveNameLocked(found, name, std::move(hold));
    }
    // A name that is new takes a place, for which another operand may have to go.
    absl::StatusOr<std::shared_ptr<StoreHold>> place =
        MakeRoom(tenant, 0, [] { return absl::OkStatus(); });
    if (!place.ok()) return place.status();
    hold = *std::move(place);
  }
}

OperandStore::Named OperandStore::GiveNameLocked(Entries::iterator entry, const std::string& name,
                                                 std::shared_ptr<StoreHold> hold) {
  Named named;
  Entry& given = entry->second;
  std::uint64_t& id = names_[{given.tenant, name}];
  if (id != 0 && id != entry->first) {
    Entry& replaced = entries_.at(id);
    hold = std::move(replaced.names.extract(name).mapped());
    named.replaced_handle = replaced.handle;
  }
  if (id != entry->first) given.names.emplace(name, std::move(hold));
  id = entry->first;
  named.info = InfoLocked(entry->first, given);
  return named;
}

}  // namespace gemmd
