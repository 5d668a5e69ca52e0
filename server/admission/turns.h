// A round robin of round robins: names, and those that stand under each name.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <string>

namespace gemmd {

// Names take turns, and entries under one name take turns whenever it has its own: so each entry
// has one after finitely many. Not thread-safe.
template <typename T>
class Turns {
 public:
  // Adds an entry as the name's last; a new name is the last of all.
  void Add(const std::string& name, T* one) {
    const auto [found, is_new] = names_.try_emplace(name);
    Name& named = found->second;
    if (is_new) named.place = turns_.insert(turns_.end(), &named);
    named.all.push_back(one);
  }

  // REQUIRES: it stands under the name.
  void Remove(const std::string& name, T* one) {
    const auto found = names_.find(name);
    found->second.all.remove(one);
    if (!found->second.all.empty()) return;
    turns_.erase(found->second.place);
    names_.erase(found);
  }

  // Takes a turn. REQUIRES: some stand here.
  T* Next() {
    turns_.splice(turns_.end(), turns_, turns_.begin());
    std::list<T*>& all = turns_.back()->all;
    all.splice(all.end(), all, all.begin());
    return all.back();
  }

  // Returns the entries under a name.
  const std::list<T*>& Of(const std::string& name) const {
    static const std::list<T*> none;
    const auto found = names_.find(name);
    return found == names_.end() ? none : found->second.all;
  }

 private:
  struct Name {
    std::list<T*> all;                          // the first is next
    typename std::list<Name*>::iterator place;  // in turns_
  };
  std::map<std::string, Name> names_;  // none is empty
  std::list<Name*> turns_;             // the first is next
};

}  // namespace gemmd
