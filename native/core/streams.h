// Streams of jobs on GPUs. A lane's thread has a stream of its own on every device in use, current while its
// jobs run. What JavaScript has seen finished comes before what it queues next:
//  - the end of a job is an event, for which the JS thread's stream waits before the results become handles;
//  - a queued job brings an event of the JS thread's stream, for which the lane's stream waits before the
//  job.
// So a job follows on the device whatever its inputs come from, whichever lane made them, and jobs queued
// without awaiting one another run side by side. The host waits for nothing. All of it goes through c10's
// device interface, which CUDA's side of libtorch fills as the plug-in loads it; without a device in use it
// does nothing.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace aegir::streams {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int maxDevices = 32;

// From here on jobs have streams on `device`; the CPU has none. Waits for the device the first time, to read
// its clock.
void use(at::Device device);
bool inUse();

// Waits until the devices have done what lies on the calling thread's streams.
void drain();

// Tensors on a device are noted as a call reads them on the JS thread; the job that the call queues takes the
// notes, and their memory is then not used again before its stream is done with them.
void noteRead(const at::Tensor& tensor);
// The same for the calling thread's current stream, at once.
void usedHere(const at::Tensor& tensor);

// When something ran: by the host's clock, and where devices are in use by the clock of the one that was busy
// longest, between events on the calling thread's streams.
class Span {
 public:
  void begin();
  void end();
  bool onDevice() const { return device_; }
  // On the host's clock; on a device these wait for the end.
  SteadyTime start() const;
  SteadyTime finish() const;

 private:
  friend class JobOrder;
  struct Marks {
    std::shared_ptr<c10::Event> begin, end;
  };
  const Marks& busiest(int& device) const;

  bool device_ = false;
  SteadyTime start_, finish_;
  std::array<Marks, maxDevices> marks_;
};

// Orders one job among the others, as said above.
class JobOrder {
 public:
  // On the JS thread, as the job is queued.
  JobOrder();
  // On the lane's thread, around the job.
  void start();
  void finish();
  // On the JS thread, before it sees the results.
  void see();

  const std::shared_ptr<Span>& span() const { return span_; }

 private:
  const std::thread::id queuedOn_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> read_;
  std::array<std::shared_ptr<c10::Event>, maxDevices> queued_;
  std::shared_ptr<Span> span_ = std::make_shared<Span>();
};

}  // namespace aegir::streams
