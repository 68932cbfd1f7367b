#include "native/core/lane.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <pthread.h>

#include <algorithm>
#include <vector>

#include "native/core/error.h"

namespace aegir {
namespace {

struct Running {
  const Lane* lane = nullptr;
  const CancelToken* cancel = nullptr;
};
thread_local Running running;

void deliver(std::unique_ptr<LaneJob> job) noexcept {
  LaneJob& target = *job;
  target.deliver(std::move(job));
}

void abandonAndDeliver(std::unique_ptr<LaneJob> job) noexcept {
  job->abandon();
  deliver(std::move(job));
}

}  // namespace

int defaultIntraOpThreads() {
  static const int threads = at::get_num_threads();
  return threads;
}

// libtorch's thread count belongs to the calling thread, in OpenMP and in MKL alike. The OpenMP call is for
// our own parallel regions, should they be linked to a second OpenMP runtime.
void setIntraOpThreads(int threads) {
  // A thread's first use of libtorch sets its count to the last one set anywhere; that must be behind us. The
  // flag that says so is part of an inline function: libtorch has one, this library another.
  at::get_num_threads();
  at::internal::lazy_init_num_threads();
  at::set_num_threads(threads);
#ifdef _OPENMP
  omp_set_num_threads(threads);
#endif
}

void throwIfCancelled() {
  const bool cancelled =
      (running.cancel && running.cancel->cancelled()) || (running.lane && running.lane->stopping());
  if (cancelled) fail(ErrorCode::Aborted, "the operation was aborted");
}

std::shared_ptr<Lane> Lane::create(std::string name, int threads) {
  std::shared_ptr<Lane> lane(new Lane(std::move(name), threads));
  // The thread holds a plain pointer: stop() and the destructor join it before the lane goes.
  lane->thread_ = std::thread([raw = lane.get()] { raw->loop(); });
  return lane;
}

Lane::Lane(std::string name, int threads) : name_(std::move(name)), threads_(threads) {}

Lane::~Lane() { stop(); }

bool Lane::ended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return ended_;
}

void Lane::submit(std::unique_ptr<LaneJob> job) {
  if (job->cancel) job->cancel->watch(shared_from_this());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) fail(ErrorCode::Disposed, "lane '", name_, "' is closed and takes no new work");
    pending_.fetch_add(1, std::memory_order_acq_rel);
    queue_.push_back(std::move(job));
  }
  wake_.notify_one();
}

bool Lane::closeAfter(std::unique_ptr<LaneJob>& last) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    if (ended_) return false;
    pending_.fetch_add(1, std::memory_order_acq_rel);
    queue_.push_back(std::move(last));
  }
  wake_.notify_one();
  return true;
}

void Lane::close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  wake_.notify_one();
}

void Lane::abandonCancelled() {
  std::vector<std::unique_ptr<LaneJob>> cancelled;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto kept = std::stable_partition(queue_.begin(), queue_.end(), [](const auto& job) {
      return !(job->cancel && job->cancel->cancelled());
    });
    std::move(kept, queue_.end(), std::back_inserter(cancelled));
    queue_.erase(kept, queue_.end());
    pending_.fetch_sub(static_cast<int64_t>(cancelled.size()), std::memory_order_acq_rel);
  }
  for (auto& job : cancelled) abandonAndDeliver(std::move(job));
}

void Lane::stop() {
  std::deque<std::unique_ptr<LaneJob>> waiting;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    stopping_.store(true, std::memory_order_release);
    waiting.swap(queue_);
    pending_.fetch_sub(static_cast<int64_t>(waiting.size()), std::memory_order_acq_rel);
  }
  wake_.notify_one();
  for (auto& job : waiting) abandonAndDeliver(std::move(job));
  std::lock_guard<std::mutex> lock(joinMutex_);
  if (thread_.joinable()) thread_.join();
}

void Lane::loop() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  int threads = threads_;
  setIntraOpThreads(threads);
  c10::AutoGradMode gradOff(false);
  running.lane = this;
  for (;;) {
    std::unique_ptr<LaneJob> job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) {
        ended_ = true;
        return;
      }
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    const bool cancelled = job->cancel && job->cancel->cancelled();
    running.cancel = job->cancel.get();
    const int wanted = job->threads > 0 ? job->threads : threads_;
    if (wanted != threads) setIntraOpThreads(threads = wanted);
    cancelled ? job->abandon() : job->run();
    running.cancel = nullptr;
    pending_.fetch_sub(1, std::memory_order_acq_rel);
    deliver(std::move(job));
  }
}

}  // namespace aegir
