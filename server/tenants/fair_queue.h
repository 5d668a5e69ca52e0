// A fair queue: names take turns by the cost of their items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace gemmd {

// Names share the work equally, by what their items cost and not by their number: the name that has
// had least is next, the first to come where it is several. A name keeps no share for later that it
// had no use for: it begins with what each of those that wait would have had by then (weighted fair
// queueing; Demers, Keshav and Shenker 1989). The past is forgotten when nobody waits. Items of one
// name keep their order. Not thread-safe.
template <typename T>
class FairQueue {
 public:
  void Push(const std::string& name, double cost, T item) {
    Lane& lane = lanes_[name];
    if (lane.items.empty()) lane.had = std::max(lane.had, each_had_);
    lane.items.push_back({next_number_++, cost, std::move(item)});
    ++size_;
  }

  // REQUIRES: !empty().
  T Pop() {
    Lane* next = nullptr;
    std::size_t waiting = 0;
    for (auto& [name, lane] : lanes_) {
      if (lane.items.empty()) continue;
      ++waiting;
      if (next == nullptr || std::make_pair(lane.had, lane.items.front().number) <
                                 std::make_pair(next->had, next->items.front().number)) {
        next = &lane;
      }
    }
    Item& first = next->items.front();
    next->had += first.cost;
    each_had_ += first.cost / static_cast<double>(waiting);
    T item = std::move(first.item);
    next->items.pop_front();
    --size_;
    Forget();
    return item;
  }

  bool empty() const { return size_ == 0; }
  // The number of names that are remembered.
  std::size_t names() const { return lanes_.size(); }

 private:
  struct Item {
    std::uint64_t number;  // in the order in which they came
    double cost;
    T item;
  };
  struct Lane {
    std::deque<Item> items;
    double had = 0;
  };

  // Names are free: so few are remembered beside those that wait.
  void Forget() {
    constexpr std::size_t kFew = 64;
    if (size_ == 0) {
      lanes_.clear();
      each_had_ = 0;
    } else if (lanes_.size() > size_ + kFew) {
      for (auto each = lanes_.begin(); each != lanes_.end();) {
        each = each->second.items.empty() ? lanes_.erase(each) : std::next(each);
      }
    }
  }

  std::map<std::string, Lane> lanes_;
  std::size_t size_ = 0;
  std::uint64_t next_number_ = 0;
  double each_had_ = 0;  // a name that waited all the time
};

}  // namespace gemmd
