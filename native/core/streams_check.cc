// Checks the order in which jobs come on a device, against a simulated one whose streams and events carry
// vector clocks: what a job's inputs come from is before it, and jobs queued side by side are in no order.
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "native/core/streams.h"

namespace aegir {
namespace {

using streams::JobOrder;
using StreamId = c10::StreamId;

// Events of each stream so far that are before a point.
using VectorClock = std::map<StreamId, int64_t>;

struct SimulatedEvent {
  VectorClock clock;
  double milliseconds = 0;
};

struct Simulation {
  std::mutex mutex;
  std::map<StreamId, VectorClock> streams;
  std::map<const void*, std::set<StreamId>> uses;  // recordDataPtrOnStream
  StreamId next = 1;
  double milliseconds = 0;
  int hostWaits = 0;
};
Simulation simulation;
thread_local StreamId currentStream = 0;

c10::Device device() { return c10::Device(c10::kCUDA, 0); }
c10::Stream streamOf(StreamId id) { return c10::Stream(c10::Stream::UNSAFE, device(), id); }

void advance(VectorClock& clock, const VectorClock& other) {
  for (const auto& [stream, tick] : other) clock[stream] = std::max(clock[stream], tick);
}

struct SimulatedGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return streamOf(currentStream); }
  c10::Stream getNewStream(c10::Device, int) const override {
    std::lock_guard<std::mutex> lock(simulation.mutex);
    return streamOf(simulation.next++);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return streamOf(std::exchange(currentStream, stream.id()));
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    std::lock_guard<std::mutex> lock(simulation.mutex);
    if (*event == nullptr) *event = new SimulatedEvent;
    *static_cast<SimulatedEvent*>(*event) = {simulation.streams[stream.id()], simulation.milliseconds++};
  }
  void block(void* event, const c10::Stream& stream) const override {
    std::lock_guard<std::mutex> lock(simulation.mutex);
    advance(simulation.streams[stream.id()], static_cast<SimulatedEvent*>(event)->clock);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<SimulatedEvent*>(event);
  }
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { ++simulation.hostWaits; }
  void synchronizeStream(const c10::Stream&) const override { ++simulation.hostWaits; }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return static_cast<SimulatedEvent*>(to)->milliseconds - static_cast<SimulatedEvent*>(from)->milliseconds;
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    std::lock_guard<std::mutex> lock(simulation.mutex);
    simulation.uses[data.get()].insert(stream.id());
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, SimulatedGuard)

// A kernel on the calling thread's current stream.
struct Kernel {
  StreamId stream = 0;
  VectorClock clock;

  bool before(const Kernel& other) const {
    const auto tick = other.clock.find(stream);
    return tick != other.clock.end() && tick->second >= clock.at(stream);
  }
};

Kernel launch() {
  std::lock_guard<std::mutex> lock(simulation.mutex);
  VectorClock& clock = simulation.streams[currentStream];
  ++clock[currentStream];
  return {currentStream, clock};
}

at::Tensor simulatedTensor(void* data) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 8,
                                                       c10::DataPtr(data, device()), nullptr, false);
  return at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), caffe2::TypeMeta::Make<float>());
}

// A job that launches one kernel; queued on the JS thread as it is made.
struct Job {
  JobOrder order;
  Kernel kernel;
};

// A lane's thread with these jobs. Lanes run one after another here: what is looked at is the device's order.
void runLane(const std::vector<Job*>& jobs) {
  std::thread lane([&jobs] {
    for (Job* job : jobs) {
      job->order.start();
      job->kernel = launch();
      job->order.finish();
    }
  });
  lane.join();
}

int failures = 0;
void expect(bool holds, const std::string& what) {
  std::printf("%s %s\n", holds ? "ok  " : "FAIL", what.c_str());
  if (!holds) ++failures;
}

// The primary's prefix, two specialists side by side, the primary's rest: a swarm's forward.
void swarmOrder() {
  const Kernel uploaded = launch();  // on the JS thread
  Job prefix;
  runLane({&prefix});
  prefix.order.see();
  Job one, two;
  runLane({&one});
  runLane({&two});
  one.order.see();
  two.order.see();
  Job rest;
  runLane({&rest});
  expect(uploaded.before(prefix.kernel), "what the JS thread did comes before a job");
  expect(prefix.kernel.before(one.kernel) && prefix.kernel.before(two.kernel),
         "specialists come after the prefix that was awaited");
  expect(!one.kernel.before(two.kernel) && !two.kernel.before(one.kernel), "specialists are in no order");
  expect(one.kernel.before(rest.kernel) && two.kernel.before(rest.kernel), "the rest comes after both");
  expect(one.kernel.stream != two.kernel.stream, "each lane has a stream of its own");
  expect(one.kernel.before(launch()) && !rest.kernel.before(launch()),
         "the JS thread follows what it has seen");
}

void unseenWork() {
  Job early;
  runLane({&early});
  Job late;  // queued before the end of `early` was seen
  early.order.see();
  runLane({&late});
  expect(!early.kernel.before(late.kernel),
         "a job does not wait for what had not been seen as it was queued");
}

void laneOrder() {
  Job one, two;
  runLane({&one, &two});
  expect(one.kernel.stream == two.kernel.stream && one.kernel.before(two.kernel),
         "jobs of a lane are in order");
  Job here;
  here.order.start();
  here.order.finish();
  expect(currentStream == 0, "a job on the JS thread leaves its stream alone");
}

void memory() {
  double data = 0, kept = 0;
  {
    const auto tensor = simulatedTensor(&data);
    streams::noteRead(tensor);
    Job job;
    runLane({&job});
    expect(simulation.uses[&data].count(job.kernel.stream) == 1,
           "an input's memory is kept for the job's stream");
  }
  streams::usedHere(simulatedTensor(&kept));
  expect(simulation.uses[&kept].count(0) == 1, "a handle's memory is kept for the JS thread's stream");
  simulation.uses.clear();
  streams::noteRead(simulatedTensor(&kept));  // gone before a job takes the note
  Job job;
  runLane({&job});
  expect(simulation.uses.empty(), "memory that is gone is left alone");
}

void clocks() {
  Job one, two;
  runLane({&one, &two});
  const int before = simulation.hostWaits;
  const auto &a = *one.order.span(), &b = *two.order.span();
  expect(a.onDevice() && a.start() < a.finish() && a.finish() < b.start() && b.start() < b.finish(),
         "intervals are of the device");
  expect(simulation.hostWaits > before, "reading an interval waits for its end");
}

int run() {
  expect(!streams::inUse(), "no device is in use at first");
  JobOrder idle;
  idle.start();
  idle.finish();
  idle.see();
  expect(!idle.span()->onDevice() && simulation.streams.empty(), "without a device nothing is queued");
  streams::use(c10::Device(c10::kCPU));
  expect(!streams::inUse(), "the CPU has no streams");
  streams::use(device());
  expect(streams::inUse(), "a device is in use");
  const int waits = simulation.hostWaits;
  swarmOrder();
  unseenWork();
  laneOrder();
  memory();
  expect(simulation.hostWaits == waits, "the host waited for nothing");
  clocks();
  std::printf("streams_check: %d failed\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace aegir

int main() { return aegir::run(); }
