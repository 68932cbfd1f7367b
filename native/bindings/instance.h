// The state of one environment (the main thread's or a worker_thread's) in which the addon is loaded. Nothing
// that belongs to JavaScript is static.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/util/flat_hash_map.h>
#include <napi.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "native/core/live_tensors.h"

namespace torch::nn {
class Module;
}

namespace aegir {

class AsyncJobBase;
class Instance;
class Lane;
class Scope;
class ScopeMember;

void settleOnJsThread(Napi::Env env, Napi::Function, Instance* instance, AsyncJobBase* job);
using Completions = Napi::TypedThreadSafeFunction<Instance, AsyncJobBase, settleOnJsThread>;

using ModuleFactory =
    std::function<std::shared_ptr<torch::nn::Module>(Napi::Object config, at::Generator generator)>;

class Instance {
 public:
  explicit Instance(Napi::Env env);

  // Ends every lane of this environment: queued jobs are abandoned, running ones end at their next check.
  void stopLanes();
  void addLane(std::shared_ptr<Lane> lane);

  // steady_clock nanoseconds where performance.now() is 0 in this environment.
  int64_t performanceOrigin() const { return performanceOrigin_; }

  // Keeps the process alive while jobs are pending, and only then.
  void jobQueued(Napi::Env env);
  void jobSettled(Napi::Env env);

  // Accounts for a tensor held by a handle, here and towards the garbage collector.
  void tensorHeld(Napi::Env env, const at::Tensor& tensor);
  void tensorReleased(Napi::Env env, const at::Tensor& tensor);

  Napi::FunctionReference errorClass;
  // Every handle that lives, by what its object wraps, with the kName of its class, which is compared by
  // address.
  ska::flat_hash_map<const void*, const char*> handles;
  // Constructor of each handle class, by its kName.
  std::unordered_map<const char*, Napi::FunctionReference> constructors;
  // The native value that the handle under construction adopts; see handle.h.
  void* adopting = nullptr;
  Completions completions;
  LiveTensors live;
  // Where Tensor.layout writes to; JavaScript reads it as Tensor.layoutValues. See tensor.h.
  double* layout = nullptr;
  Napi::ObjectReference layoutValues;
  std::map<std::string, ModuleFactory> moduleFactories;

  // Tidy scopes, see scope.h: how many are open, who names the current one, and that of the job being
  // settled.
  int64_t openScopes = 0;
  Napi::FunctionReference scopeProvider;
  std::optional<std::shared_ptr<Scope>> settlingScope;
  std::vector<std::pair<const char*, ScopeMember* (*)(void*)>> scopedClasses;

 private:
  int64_t performanceOrigin_;
  // Bytes that the garbage collector has not been told of yet.
  void accountFor(Napi::Env env, int64_t change);

  int64_t pendingJobs_ = 0;
  int64_t unaccounted_ = 0;
  std::vector<std::shared_ptr<Lane>> lanes_;
};

inline Instance& instanceOf(Napi::Env env) { return *env.GetInstanceData<Instance>(); }

}  // namespace aegir
