#include "client/calls/refiller.h"

#include <system_error>
#include <utility>

namespace gemmd::client {

Refiller::~Refiller() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Refiller::Bring(std::vector<OperandSource> lost, absl::Time deadline, Done done) {
  Task task{std::move(lost), deadline, std::move(done)};
  if (Begin(&task)) return;
  task.done(absl::ResourceExhaustedError(
      "operands that the server has lost are sent again by a thread, and the system gives none"));
}

bool Refiller::Begin(Task* task) {
  const MutexLock lock(mutex_);
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    return false;
  }
  tasks_.push_back(std::move(*task));
  changed_.notify_all();
  return true;
}

void Refiller::Run() {
  while (true) {
    Task task;
    {
      const MutexLock lock(mutex_);
      while (tasks_.empty() && !is_ending_) changed_.wait(mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task.done(PutAll(task));
  }
}

absl::Status Refiller::PutAll(const Task& task) const {
  for (const OperandSource& source : task.lost) {
    const absl::StatusOr<v1::ResidentOperand> put = link_.Put(source, {}, task.deadline);
    if (!put.ok()) return put.status();
  }
  return absl::OkStatus();
}

}  // namespace gemmd::client
