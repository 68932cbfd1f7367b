#include "native/bindings/module.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>

#include "native/bindings/register.h"

#include "native/model/graphed_forward.h"
#include "native/model/parameter_groups.h"

namespace aegir {
namespace {

Napi::Value createModule(const Napi::CallbackInfo& info) {
  const std::string kind = stringArg(info[0], "kind");
  auto config = objectArg(info[1], "config");
  auto generator = generatorArg(info[2], "generator");
  const auto& factories = instanceOf(info.Env()).moduleFactories;
  const auto factory = factories.find(kind);
  if (factory == factories.end()) {
    std::string known;
    for (const auto& [name, unused] : factories) known += (known.empty() ? "" : ", ") + name;
    fail(ErrorCode::Argument, "kind: expected one of ", known, ", got '", kind, "'");
  }
  return makeHandle<ModuleHandle>(info.Env(), {kind, factory->second(config, std::move(generator))});
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> namedTensors(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

void copyNamedTensors(const std::vector<std::pair<std::string, at::Tensor>>& target,
                      const std::vector<std::pair<std::string, at::Tensor>>& source) {
  std::map<std::string, at::Tensor> given(source.begin(), source.end());
  for (const auto& [name, tensor] : target) {
    const auto found = given.find(name);
    if (found == given.end()) fail(ErrorCode::Checkpoint, "'", name, "' is missing");
    if (found->second.sizes() != tensor.sizes()) {
      fail(ErrorCode::Checkpoint, "'", name, "': expected shape ", tensor.sizes(), ", got ",
           found->second.sizes());
    }
    if (at::isFloatingType(found->second.scalar_type()) != at::isFloatingType(tensor.scalar_type())) {
      fail(ErrorCode::Checkpoint, "'", name, "': expected ", dtypeName(tensor.scalar_type()), ", got ",
           dtypeName(found->second.scalar_type()));
    }
  }
  if (given.size() > target.size()) {
    for (const auto& [name, tensor] : target) given.erase(name);
    fail(ErrorCode::Checkpoint, "'", given.begin()->first, "' is not a tensor of this geometry");
  }
  c10::AutoGradMode gradOff(false);
  for (const auto& [name, tensor] : target) at::Tensor(tensor).copy_(given.at(name));
}

Napi::Object wrapNamedTensors(Napi::Env env, const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  auto record = Napi::Object::New(env);
  for (const auto& [name, tensor] : tensors) record.Set(name, wrapTensor(env, tensor.detach()));
  return record;
}

std::vector<std::pair<std::string, at::Tensor>> namedTensorsArg(const Napi::Value& value,
                                                                const std::string& argument) {
  auto record = objectArg(value, argument);
  auto names = record.GetPropertyNames();
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (uint32_t i = 0; i < names.Length(); ++i) {
    const std::string name = names.Get(i).As<Napi::String>().Utf8Value();
    tensors.emplace_back(name, tensorArg(record.Get(name), argument + "." + name));
  }
  return tensors;
}

Napi::Value ModuleHandle::kind(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), native().kind);
}

Napi::Value ModuleHandle::frozen(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), native().frozen);
}

Napi::Value ModuleHandle::numParameters(const Napi::CallbackInfo& info) {
  int64_t count = 0;
  for (const auto& parameter : native().module->parameters()) count += parameter.numel();
  return Napi::Number::New(info.Env(), static_cast<double>(count));
}

Napi::Value ModuleHandle::parameters(const Napi::CallbackInfo& info) {
  auto env = info.Env();
  auto list = Napi::Array::New(env);
  for (const auto& item : native().module->named_parameters()) {
    auto parameter = Napi::Object::New(env);
    parameter.Set("name", item.key());
    parameter.Set("shape", shapeArray(env, item.value().sizes()));
    parameter.Set("group", parameterGroup(item.key(), item.value()));
    list.Set(list.Length(), parameter);
  }
  return list;
}

Napi::Value ModuleHandle::stateDict(const Napi::CallbackInfo& info) {
  return wrapNamedTensors(info.Env(), namedTensors(*native().module));
}

Napi::Value ModuleHandle::loadStateDict(const Napi::CallbackInfo& info) {
  check(!native().frozen, ErrorCode::Argument, "loadStateDict: the module is frozen; load before freeze()");
  copyNamedTensors(namedTensors(*native().module), namedTensorsArg(info[0], "tensors"));
  return info.Env().Undefined();
}

Napi::Value ModuleHandle::gradients(const Napi::CallbackInfo& info) {
  std::vector<std::pair<std::string, at::Tensor>> gradients;
  for (const auto& item : native().module->named_parameters()) {
    if (item.value().grad().defined()) gradients.emplace_back(item.key(), item.value().grad().clone());
  }
  return wrapNamedTensors(info.Env(), gradients);
}

Napi::Value ModuleHandle::freeze(const Napi::CallbackInfo& info) {
  ModuleEntry& entry = native();
  for (auto& parameter : entry.module->parameters()) parameter.requires_grad_(false);
  entry.frozen = true;
  const bool wanted = !isAbsent(info[0]) && boolArg(info[0], "graphs");
  if (auto model = std::dynamic_pointer_cast<model::Model>(entry.module); wanted && model && !entry.graphs) {
    entry.graphs = std::make_shared<model::GraphedForward>(std::move(model));
  }
  return info.Env().Undefined();
}

Napi::Value ModuleHandle::graphs(const Napi::CallbackInfo& info) {
  if (!native().graphs) return info.Env().Null();
  const model::GraphReport report = native().graphs->report();
  auto object = Napi::Object::New(info.Env());
  object.Set("captures", static_cast<double>(report.captures));
  object.Set("replays", static_cast<double>(report.replays));
  object.Set("eager", static_cast<double>(report.eager));
  object.Set("reason", report.reason);
  return object;
}

Napi::Value ModuleHandle::device(const Napi::CallbackInfo& info) {
  const auto parameters = native().module->parameters();
  return Napi::String::New(info.Env(), parameters.empty() ? "cpu" : parameters.front().device().str());
}

Napi::Value ModuleHandle::to(const Napi::CallbackInfo& info) {
  native().module->to(deviceArg(info[0], "device"));
  return info.Env().Undefined();
}

void registerModuleKind(Napi::Env env, const std::string& kind, ModuleFactory factory) {
  instanceOf(env).moduleFactories[kind] = std::move(factory);
}

void registerModule(Napi::Env env, Napi::Object exports) {
  using M = ModuleHandle;
  defineHandle<M>(
      env, exports,
      {M::getter<&M::kind>("kind"), M::getter<&M::frozen>("frozen"),
       M::getter<&M::numParameters>("numParameters"), M::method<&M::parameters>("parameters"),
       M::method<&M::stateDict>("stateDict"), M::method<&M::loadStateDict>("loadStateDict"),
       M::method<&M::gradients>("gradients"), M::method<&M::freeze>("freeze"),
       M::getter<&M::graphs>("graphs"), M::getter<&M::device>("device"), M::method<&M::to>("to")});
  setFunction<createModule>(exports, "createModule");
}

}  // namespace aegir
