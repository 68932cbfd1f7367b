// The JavaScript class Optimizer: AdamW and Muon over the parameters of modules.
#include <map>
#include <memory>

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/module.h"
#include "native/bindings/register.h"
#include "native/optim/adamw.h"
#include "native/optim/muon.h"

namespace aegir {
namespace {

using SharedAdamW = std::shared_ptr<optim::AdamW>;

class OptimizerHandle : public Handle<OptimizerHandle, SharedAdamW> {
 public:
  static constexpr const char* kName = "Optimizer";

  explicit OptimizerHandle(const Napi::CallbackInfo& info) : Handle(info) {}

  Napi::Value stateDict(const Napi::CallbackInfo& info) {
    return wrapNamedTensors(info.Env(), native()->stateDict());
  }
  Napi::Value loadStateDict(const Napi::CallbackInfo& info) {
    native()->loadStateDict(namedTensorsArg(info[0], "tensors"));
    return info.Env().Undefined();
  }
};

// Parameters are named "<index of the module>.<name>": modules of one kind share their names.
void addGroup(const Napi::Object& group, std::map<torch::nn::Module*, size_t>& modules,
              std::vector<optim::AdamWParameter>& parameters) {
  auto module = moduleArg<torch::nn::Module>(group.Get("module"), "module");
  const size_t index = modules.emplace(module.get(), modules.size()).first->second;
  const double lrScale = numberField(group, "lrScale"), weightDecay = numberField(group, "weightDecay");
  const bool muon = boolField(group, "muon", false);
  const auto named = module->named_parameters();
  for (const auto& name : stringList(group.Get("names"), "names")) {
    const auto* value = named.find(name);
    check(value != nullptr, ErrorCode::Argument, "names: '", name, "' is not a parameter of the module");
    parameters.push_back({std::to_string(index) + "." + name, *value, lrScale, weightDecay, muon});
  }
}

Napi::Value createAdamW(const Napi::CallbackInfo& info) {
  const auto groups = arrayArg(info[0], "groups");
  const auto options = objectArg(info[1], "options");
  std::map<torch::nn::Module*, size_t> modules;
  std::vector<optim::AdamWParameter> parameters;
  for (uint32_t i = 0; i < groups.Length(); ++i) {
    addGroup(objectArg(groups.Get(i), "groups[" + std::to_string(i) + "]"), modules, parameters);
  }
  const optim::AdamWOptions adamW{numberField(options, "beta1"), numberField(options, "beta2"),
                                  numberField(options, "eps"), numberField(options, "momentum", 0.95)};
  return makeHandle<OptimizerHandle>(info.Env(),
                                     std::make_shared<optim::AdamW>(std::move(parameters), adamW));
}

Napi::Value orthogonalise(const Napi::CallbackInfo& info) {
  auto matrix = tensorArg(info[1], "matrix");
  check(matrix.dim() == 2, ErrorCode::Shape, "matrix: expected two dimensions, got ", matrix.sizes());
  return enqueue(
      info.Env(), laneArg(info[0]), nullptr, [matrix] { return optim::orthogonalise(matrix.detach()); },
      [](Napi::Env env, at::Tensor& result) {
        auto object = Napi::Object::New(env);
        object.Set("matrix", wrapTensor(env, result));
        return object;
      });
}

Napi::Value optimizerStep(const Napi::CallbackInfo& info) {
  auto optimizer = nativeArg<OptimizerHandle>(info[1], "optimizer");
  const auto step = objectArg(info[2], "step");
  const double lr = numberField(step, "lr"), clipNorm = numberField(step, "clipNorm");
  auto work = [optimizer, lr, clipNorm] { return optimizer->step(lr, clipNorm); };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [](Napi::Env env, optim::StepResult& result) {
                   auto object = Napi::Object::New(env);
                   object.Set("gradNorm", result.gradNorm);
                   object.Set("skipped", result.skipped);
                   return object;
                 });
}

}  // namespace

void registerOptim(Napi::Env env, Napi::Object exports) {
  using O = OptimizerHandle;
  defineHandle<O>(env, exports,
                  {O::method<&O::stateDict>("stateDict"), O::method<&O::loadStateDict>("loadStateDict")});
  setFunction<createAdamW>(exports, "createAdamW");
  setFunction<orthogonalise>(exports, "orthogonalise");
  setFunction<optimizerStep>(exports, "optimizerStep");
}

}  // namespace aegir
