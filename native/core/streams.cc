#include "native/core/streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace aegir::streams {
namespace {

using Guard = c10::impl::VirtualGuardImpl;

std::atomic<uint32_t> devices{0};  // one bit a device in use

Guard guard() { return Guard(at::kCUDA); }

at::Device deviceOf(int index) { return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index)); }

template <class Visit>
void eachDevice(const Visit& visit) {
  uint32_t left = devices.load(std::memory_order_acquire);
  for (; left != 0; left &= left - 1) visit(__builtin_ctz(left));
}

std::shared_ptr<c10::Event> recorded(int device, c10::EventFlag flag) {
  auto event = std::make_shared<c10::Event>(at::kCUDA, flag);
  event->record(guard().getStream(deviceOf(device)));
  return event;
}

SteadyTime::duration durationOf(double milliseconds) {
  return std::chrono::duration_cast<SteadyTime::duration>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

// Where a device's clock stands on the host's. CUDA gives the time between two events as a float: the
// reference moves on with what is read, so that a long run keeps microseconds.
struct Clock {
  std::mutex mutex;
  std::shared_ptr<c10::Event> reference;
  SteadyTime time;

  void set(int device) {
    std::lock_guard<std::mutex> lock(mutex);
    reference = recorded(device, c10::EventFlag::BACKEND_DEFAULT);
    reference->synchronize();
    time = std::chrono::steady_clock::now();
  }

  SteadyTime of(const std::shared_ptr<c10::Event>& event) {
    constexpr double longest = 60'000;
    event->synchronize();
    std::lock_guard<std::mutex> lock(mutex);
    const double milliseconds = reference->elapsedTime(*event);
    const SteadyTime result = time + durationOf(milliseconds);
    if (milliseconds > longest) {
      reference = event;
      time = result;
    }
    return result;
  }
};

Clock& clockOf(int device) {
  static std::array<Clock, maxDevices> clocks;
  return clocks[static_cast<size_t>(device)];
}

// The lane's stream on a device; its thread is the only one that asks.
c10::Stream laneStream(int device) {
  thread_local std::array<std::optional<c10::Stream>, maxDevices> streams;
  auto& stream = streams[static_cast<size_t>(device)];
  if (!stream) stream = guard().getNewStream(deviceOf(device));
  return *stream;
}

using Reads = std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>;
thread_local Reads reads;

void recordUse(const c10::StorageImpl& storage) {
  guard().recordDataPtrOnStream(storage.data_ptr(), guard().getStream(storage.device()));
}

}  // namespace

void use(at::Device device) {
  if (device.is_cpu() || device.index() < 0 || device.index() >= maxDevices) return;
  const uint32_t bit = uint32_t{1} << device.index();
  if (devices.load(std::memory_order_acquire) & bit) return;
  clockOf(device.index()).set(device.index());
  devices.fetch_or(bit, std::memory_order_acq_rel);
}

bool inUse() { return devices.load(std::memory_order_acquire) != 0; }

void drain() {
  eachDevice([](int device) { guard().synchronizeStream(guard().getStream(deviceOf(device))); });
}

void noteRead(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu() || !tensor.has_storage()) return;
  // Calls that queue no job leave their notes behind: those whose memory is gone are dropped now and then.
  constexpr size_t many = 1024;
  if (reads.size() % many == many - 1)
    std::erase_if(reads, [](const auto& storage) { return storage.expired(); });
  reads.emplace_back(tensor.storage().getWeakStorageImpl());
}

void usedHere(const at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_cpu() && tensor.has_storage())
    recordUse(*tensor.storage().unsafeGetStorageImpl());
}

void Span::begin() {
  start_ = std::chrono::steady_clock::now();
  eachDevice([this](int device) {
    marks_[static_cast<size_t>(device)].begin = recorded(device, c10::EventFlag::BACKEND_DEFAULT);
  });
}

void Span::end() {
  eachDevice([this](int device) {
    auto& marks = marks_[static_cast<size_t>(device)];
    marks.end = recorded(device, c10::EventFlag::BACKEND_DEFAULT);
    device_ = device_ || marks.begin;
  });
  finish_ = std::chrono::steady_clock::now();
}

const Span::Marks& Span::busiest(int& device) const {
  double longest = -1;
  for (int i = 0; i < maxDevices; ++i) {
    const Marks& marks = marks_[static_cast<size_t>(i)];
    if (!marks.begin || !marks.end) continue;
    marks.end->synchronize();
    const double milliseconds = marks.begin->elapsedTime(*marks.end);
    if (milliseconds <= longest) continue;
    longest = milliseconds;
    device = i;
  }
  return marks_[static_cast<size_t>(device)];
}

SteadyTime Span::start() const {
  if (!device_) return start_;
  int device = 0;
  const Marks& marks = busiest(device);
  return clockOf(device).of(marks.begin);
}

// From the start by the events' own difference, so that it is never before it.
SteadyTime Span::finish() const {
  if (!device_) return finish_;
  int device = 0;
  const Marks& marks = busiest(device);
  return clockOf(device).of(marks.begin) + durationOf(marks.begin->elapsedTime(*marks.end));
}

JobOrder::JobOrder() : queuedOn_(std::this_thread::get_id()) {
  eachDevice([this](int device) {
    queued_[static_cast<size_t>(device)] = recorded(device, c10::EventFlag::PYTORCH_DEFAULT);
  });
  if (inUse()) read_ = std::exchange(reads, {});
}

void JobOrder::start() {
  // The last job of a lane whose thread has ended runs on the JS thread, which keeps its stream.
  const bool onLane = std::this_thread::get_id() != queuedOn_;
  eachDevice([&](int device) {
    if (!onLane) return;
    const c10::Stream stream = laneStream(device);
    guard().exchangeStream(stream);
    if (const auto& event = queued_[static_cast<size_t>(device)]) event->block(stream);
  });
  for (const auto& weak : read_) {
    if (const auto storage = weak.lock()) recordUse(*storage);
  }
  read_.clear();
  span_->begin();
}

void JobOrder::finish() { span_->end(); }

void JobOrder::see() {
  if (!span_->device_) return;
  eachDevice([this](int device) {
    const auto& end = span_->marks_[static_cast<size_t>(device)].end;
    if (end) end->block(guard().getStream(deviceOf(device)));
  });
}

}  // namespace aegir::streams
