// The JavaScript class Module: any torch::nn module of the package, with its parameters by dotted names.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

#include "native/bindings/convert.h"
#include "native/bindings/handle.h"
#include "native/core/dtype.h"
#include "native/core/streams.h"

namespace aegir {

namespace model {
class GraphedForward;
}

struct ModuleEntry {
  std::string kind;
  std::shared_ptr<torch::nn::Module> module;
  bool frozen = false;
  // Of frozen models that run as CUDA graphs, else null.
  std::shared_ptr<model::GraphedForward> graphs = nullptr;
};

class ModuleHandle : public Handle<ModuleHandle, ModuleEntry> {
 public:
  static constexpr const char* kName = "Module";

  explicit ModuleHandle(const Napi::CallbackInfo& info) : Handle(info) {}

  Napi::Value kind(const Napi::CallbackInfo& info);
  Napi::Value frozen(const Napi::CallbackInfo& info);
  Napi::Value numParameters(const Napi::CallbackInfo& info);
  Napi::Value parameters(const Napi::CallbackInfo& info);
  Napi::Value stateDict(const Napi::CallbackInfo& info);
  Napi::Value loadStateDict(const Napi::CallbackInfo& info);
  Napi::Value gradients(const Napi::CallbackInfo& info);
  Napi::Value freeze(const Napi::CallbackInfo& info);
  Napi::Value graphs(const Napi::CallbackInfo& info);
  Napi::Value device(const Napi::CallbackInfo& info);
  Napi::Value to(const Napi::CallbackInfo& info);
};

// A registerX function makes a kind known: registerModuleKind(env, "router", [](Napi::Object config,
// at::Generator g) { return std::make_shared<SpecialistRouter>(…); }). createModule(kind, config, generator)
// then serves it.
void registerModuleKind(Napi::Env env, const std::string& kind, ModuleFactory factory);

// moduleArg<Annotator>(info[1], "module"): the module as the class M, or ERR_ARGUMENT naming its kind.
template <class M>
std::shared_ptr<M> moduleArg(const Napi::Value& value, const std::string& argument) {
  const ModuleEntry& entry = nativeArg<ModuleHandle>(value, argument.c_str());
  auto module = std::dynamic_pointer_cast<M>(entry.module);
  check(module != nullptr, ErrorCode::Argument, argument, ": a module of kind '", entry.kind,
        "' does not serve here");
  if (streams::inUse()) {
    for (const auto& parameter : module->parameters()) streams::noteRead(parameter);
  }
  return module;
}

// Every tensor of `module` by its dotted name: parameters, then buffers.
std::vector<std::pair<std::string, at::Tensor>> namedTensors(const torch::nn::Module& module);

// Copies `source` into the tensors of `target`. Every name and shape must agree, or ERR_CHECKPOINT and
// nothing changes.
void copyNamedTensors(const std::vector<std::pair<std::string, at::Tensor>>& target,
                      const std::vector<std::pair<std::string, at::Tensor>>& source);

// A JavaScript record of handles ↔ named tensors.
Napi::Object wrapNamedTensors(Napi::Env env, const std::vector<std::pair<std::string, at::Tensor>>& tensors);
std::vector<std::pair<std::string, at::Tensor>> namedTensorsArg(const Napi::Value& value,
                                                                const std::string& argument);

}  // namespace aegir
