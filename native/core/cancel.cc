#include "native/core/cancel.h"

#include <algorithm>

#include "native/core/lane.h"

namespace aegir {

void CancelToken::cancel() {
  std::vector<std::weak_ptr<Lane>> lanes;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    cancelled_.store(true, std::memory_order_release);
    lanes.swap(lanes_);
  }
  for (const auto& weak : lanes) {
    if (auto lane = weak.lock()) lane->abandonCancelled();
  }
}

void CancelToken::watch(const std::shared_ptr<Lane>& lane) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool known = std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& weak) {
    return !weak.owner_before(lane) && !lane.owner_before(weak);
  });
  if (!known) lanes_.push_back(lane);
}

}  // namespace aegir
