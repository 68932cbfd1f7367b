// Cooperative cancellation: a token is shared by the JS thread, which cancels, and the lane's thread, which
// checks.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace aegir {

class Lane;

class CancelToken {
 public:
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Queued jobs that carry the token end at once; a running one ends at its next throwIfCancelled().
  void cancel();
  // A lane that holds a job with this token, to be told when the token is cancelled.
  void watch(const std::shared_ptr<Lane>& lane);

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::vector<std::weak_ptr<Lane>> lanes_;
};

// Throws ERR_ABORTED where the job running on this thread is cancelled or its lane is stopped. Model code
// calls it between layers; off a lane it does nothing.
void throwIfCancelled();

}  // namespace aegir
