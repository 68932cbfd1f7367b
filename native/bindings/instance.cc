#include "native/bindings/instance.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "native/bindings/async.h"
#include "native/core/lane.h"
#include "native/core/streams.h"

namespace aegir {
namespace {

int64_t steadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// performance.now() counts from the start of this environment on the same monotonic clock as steady_clock;
// the tightest of several paired readings gives its origin to well under a microsecond.
int64_t measurePerformanceOrigin(Napi::Env env) {
  auto performance = env.Global().Get("performance").As<Napi::Object>();
  auto now = performance.Get("now").As<Napi::Function>();
  int64_t origin = 0;
  int64_t tightest = std::numeric_limits<int64_t>::max();
  for (int reading = 0; reading < 8; ++reading) {
    const int64_t before = steadyNanoseconds();
    const double milliseconds = now.Call(performance, {}).As<Napi::Number>().DoubleValue();
    const int64_t after = steadyNanoseconds();
    if (after - before >= tightest) continue;
    tightest = after - before;
    origin = before + tightest / 2 - static_cast<int64_t>(milliseconds * 1e6);
  }
  return origin;
}

}  // namespace

Instance::Instance(Napi::Env env) : performanceOrigin_(measurePerformanceOrigin(env)) {
  // Operations on the JS thread are small; a team of threads for them would only disturb the lanes.
  defaultIntraOpThreads();
  setIntraOpThreads(1);
  completions = Completions::New(env, "aegir-swarm", 0, 1, this);
  completions.Unref(env);
  // Cleanup hooks run in reverse order, so this one ends every lane before `completions` goes.
  env.AddCleanupHook([](Instance* instance) { instance->stopLanes(); }, this);
  // process.exit() on the main thread runs no cleanup hooks, and libtorch's statics must not go under a
  // running job.
  auto process = env.Global().Get("process").As<Napi::Object>();
  auto onExit =
      Napi::Function::New(env, [](const Napi::CallbackInfo& info) { instanceOf(info.Env()).stopLanes(); });
  process.Get("once").As<Napi::Function>().Call(process, {Napi::String::New(env, "exit"), onExit});
}

void Instance::stopLanes() {
  for (auto& lane : lanes_) lane->stop();
  lanes_.clear();
}

void Instance::addLane(std::shared_ptr<Lane> lane) {
  std::erase_if(lanes_, [](const auto& known) { return known->ended(); });
  lanes_.push_back(std::move(lane));
}

void Instance::jobQueued(Napi::Env env) {
  if (pendingJobs_++ == 0) completions.Ref(env);
}

void Instance::jobSettled(Napi::Env env) {
  if (--pendingJobs_ == 0) completions.Unref(env);
}

void Instance::tensorHeld(Napi::Env env, const at::Tensor& tensor) {
  // Its methods run on this thread's stream.
  streams::usedHere(tensor);
  accountFor(env, live.add(tensor));
}

void Instance::tensorReleased(Napi::Env env, const at::Tensor& tensor) {
  accountFor(env, live.remove(tensor));
}

void Instance::accountFor(Napi::Env env, int64_t change) {
  // A call takes longer than a small tensor's operation.
  constexpr int64_t worthTelling = int64_t{1} << 16;
  unaccounted_ += change;
  if (std::abs(unaccounted_) < worthTelling) return;
  Napi::MemoryManagement::AdjustExternalMemory(env, std::exchange(unaccounted_, 0));
}

}  // namespace aegir
