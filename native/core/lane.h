// A Lane is one native thread with a FIFO queue. Work of one model is ordered by its lane; lanes run side by
// side.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "native/core/cancel.h"

namespace aegir {

// One job. A lane calls run() or abandon(), and then deliver().
class LaneJob {
 public:
  virtual ~LaneJob() = default;
  // On the lane's thread, with gradients off; a job that builds a graph sets c10::AutoGradMode itself.
  virtual void run() noexcept = 0;
  // In place of run(): the token was cancelled or the lane stopped while the job waited. May come on any
  // thread.
  virtual void abandon() noexcept = 0;
  // Hands the outcome over, when the lane no longer counts the job as pending.
  virtual void deliver(std::unique_ptr<LaneJob> self) noexcept = 0;

  std::shared_ptr<CancelToken> cancel;
  int threads = 0;  // intra-op threads of this job; 0: the lane's
};

constexpr int64_t kMaxThreads = 1024;

// libtorch's own choice of intra-op threads, as it was before any lane set its own.
int defaultIntraOpThreads();
// Sets the calling thread's count and no other's.
void setIntraOpThreads(int threads);

class Lane : public std::enable_shared_from_this<Lane> {
 public:
  // `threads` intra-op threads serve this lane's jobs; other lanes and the JS thread keep their own count.
  static std::shared_ptr<Lane> create(std::string name, int threads);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::string& name() const { return name_; }
  int threads() const { return threads_; }
  // Jobs queued or running.
  int64_t pending() const { return pending_.load(std::memory_order_acquire); }
  bool ended() const;
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  // Throws ERR_DISPOSED where the lane is closed.
  void submit(std::unique_ptr<LaneJob> job);
  // Refuses new jobs; queued ones still run, then the thread ends.
  void close();
  // Closes and queues a last job behind the others; leaves it where it is and returns false if the thread has
  // ended.
  bool closeAfter(std::unique_ptr<LaneJob>& last);
  // Ends queued jobs whose token is cancelled.
  void abandonCancelled();
  // Abandons queued jobs, lets the running one end at its next check, and waits for the thread.
  void stop();

 private:
  Lane(std::string name, int threads);
  void loop();

  const std::string name_;
  const int threads_;
  std::atomic<int64_t> pending_{0};
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<LaneJob>> queue_;
  bool closed_ = false;
  bool ended_ = false;
  std::mutex joinMutex_;
  std::thread thread_;
};

}  // namespace aegir
