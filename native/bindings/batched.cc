// Frozen specialists that run as one: the class Ensemble and its forward call.
#include <memory>
#include <optional>
#include <utility>

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/module.h"
#include "native/bindings/register.h"
#include "native/swarm/batched.h"

namespace aegir {
namespace {

using SharedEnsemble = std::shared_ptr<const BatchedSpecialists>;

class EnsembleHandle : public Handle<EnsembleHandle, SharedEnsemble> {
 public:
  static constexpr const char* kName = "Ensemble";

  explicit EnsembleHandle(const Napi::CallbackInfo& info) : Handle(info) {}

  template <class Visit>
  static void eachTensor(const SharedEnsemble& ensemble, Visit visit) {
    for (const auto& tensor : ensemble->tensors()) visit(tensor);
  }

  Napi::Value size(const Napi::CallbackInfo& info) {
    return Napi::Number::New(info.Env(), static_cast<double>(native()->size()));
  }
};

Napi::Value createEnsemble(const Napi::CallbackInfo& info) {
  const auto list = arrayArg(info[1], "modules");
  std::vector<std::shared_ptr<model::Model>> models;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const auto name = "modules[" + std::to_string(i) + "]";
    check(nativeArg<ModuleHandle>(list.Get(i), name.c_str()).frozen, ErrorCode::Argument, name,
          ": expected a frozen module");
    models.push_back(moduleArg<model::Model>(list.Get(i), name));
  }
  auto work = [models]() -> SharedEnsemble { return std::make_shared<BatchedSpecialists>(models); };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [](Napi::Env env, SharedEnsemble& ensemble) {
                   auto object = Napi::Object::New(env);
                   object.Set("ensemble", makeHandle<EnsembleHandle>(env, std::move(ensemble)));
                   return object;
                 });
}

std::vector<std::optional<model::ModelInput>> memberInputs(const Napi::Value& value) {
  const auto list = arrayArg(value, "inputs");
  std::vector<std::optional<model::ModelInput>> inputs(list.Length());
  for (uint32_t i = 0; i < list.Length(); ++i) {
    if (isAbsent(list.Get(i))) continue;
    const auto object = objectArg(list.Get(i), "inputs[" + std::to_string(i) + "]");
    auto& input = inputs[i].emplace();
    input.inputIds = tensorField(object, "inputIds");
    input.roleIds = optionalTensor(object, "roleIds");
    input.lengths = optionalTensor(object, "lengths");
    input.poolMask = optionalTensor(object, "poolMask");
  }
  return inputs;
}

using Says = std::vector<std::optional<SpecialistSays>>;

Napi::Value saysObject(Napi::Env env, Says& says) {
  auto list = Napi::Array::New(env, says.size());
  for (uint32_t i = 0; i < says.size(); ++i) {
    if (!says[i]) {
      list.Set(i, env.Null());
      continue;
    }
    auto said = Napi::Object::New(env);
    said.Set("logits", wrapTensor(env, says[i]->logits));
    said.Set("pooled", wrapOptionalTensor(env, says[i]->pooled));
    said.Set("states", wrapTensors(env, says[i]->attKv));
    list.Set(i, said);
  }
  auto object = Napi::Object::New(env);
  object.Set("outputs", list);
  return object;
}

Napi::Value ensembleForward(const Napi::CallbackInfo& info) {
  const auto ensemble = nativeArg<EnsembleHandle>(info[1], "ensemble");
  if (streams::inUse()) EnsembleHandle::eachTensor(ensemble, streams::noteRead);
  const int threads = static_cast<int>(integerArg(info[3], "threads", 1, kMaxThreads));
  auto work = [ensemble, inputs = memberInputs(info[2])] { return ensemble->forward(inputs); };
  return enqueue(info.Env(), laneArg(info[0]), {cancelArg(info[4]), threads}, std::move(work), saysObject);
}

}  // namespace

void registerBatched(Napi::Env env, Napi::Object exports) {
  defineHandle<EnsembleHandle>(env, exports, {EnsembleHandle::getter<&EnsembleHandle::size>("size")});
  setFunction<createEnsemble>(exports, "createEnsemble");
  setFunction<ensembleForward>(exports, "ensembleForward");
}

}  // namespace aegir
