// Decoding: a causal language model one token at a time.
#include <c10/core/GradMode.h>

#include <memory>
#include <utility>

#include "native/bindings/async.h"
#include "native/bindings/module.h"
#include "native/bindings/register.h"
#include "native/bindings/state.h"
#include "native/model/sampling.h"

namespace aegir {
namespace {

using model::AegirState;
using model::CausalLM;

struct StepResult {
  at::Tensor logits;
  AegirState state;
  bool decoded;
};

// modelStep(lane, module, { inputIds, roleIds?, state? }, cancel?)
Napi::Value modelStep(const Napi::CallbackInfo& info) {
  auto module = moduleArg<CausalLM>(info[1], "module");
  const auto object = objectArg(info[2], "input");
  const model::StepInput input{tensorField(object, "inputIds"), optionalTensor(object, "roleIds")};
  const auto given = object.Get("state");
  AegirState state = isAbsent(given) ? AegirState(module->config()) : nativeArg<StateHandle>(given, "state");
  auto work = [module, input, state] {
    c10::AutoGradMode noGrad(false);
    StepResult result{at::Tensor(), state.copy(), module->decodes(state)};
    result.logits = module->advance(input, result.state);
    return result;
  };
  return enqueue(info.Env(), laneArg(info[0]), cancelArg(info[3]), std::move(work),
                 [](Napi::Env env, StepResult& result) {
                   auto record = Napi::Object::New(env);
                   record.Set("logits", wrapTensor(env, result.logits));
                   record.Set("state", makeHandle<StateHandle>(env, std::move(result.state)));
                   record.Set("decoded", result.decoded);
                   return record;
                 });
}

struct GenerateResult {
  model::Generated generated;
  AegirState state;
};

model::GenerateInput generateInput(const Napi::Object& object) {
  model::GenerateInput input;
  input.logits = tensorField(object, "logits");
  check(input.logits.dim() == 1 && input.logits.numel() > 0, ErrorCode::Shape, "logits: expected (V), got ",
        input.logits.sizes());
  input.count = integerField(object, "count", 1);
  input.sampling = {numberField(object, "temperature"), integerField(object, "topK"),
                    numberField(object, "topP")};
  for (const double id : numberList(object.Get("stop"), "stop")) {
    input.stop.push_back(static_cast<int64_t>(id));
  }
  input.role = integerField(object, "role");
  return input;
}

// modelGenerate(lane, module, { logits, state, count, temperature, topK, topP, stop, role }, generator,
// cancel?)
Napi::Value modelGenerate(const Napi::CallbackInfo& info) {
  auto module = moduleArg<CausalLM>(info[1], "module");
  const auto object = objectArg(info[2], "input");
  const auto input = generateInput(object);
  const AegirState state = nativeArg<StateHandle>(object.Get("state"), "state");
  auto work = [module, input, state, generator = generatorArg(info[3], "generator")] {
    c10::AutoGradMode noGrad(false);
    GenerateResult result{{}, state.copy()};
    result.generated = model::generate(*module, input, result.state, generator);
    return result;
  };
  return enqueue(info.Env(), laneArg(info[0]), cancelArg(info[4]), std::move(work),
                 [](Napi::Env env, GenerateResult& result) {
                   const auto& [ids, stopped, logits] = result.generated;
                   auto record = Napi::Object::New(env);
                   record.Set("ids", numberArray(env, {ids.begin(), ids.end()}));
                   record.Set("stopped", stopped);
                   record.Set("logits", wrapTensor(env, logits));
                   record.Set("state", makeHandle<StateHandle>(env, std::move(result.state)));
                   return record;
                 });
}

}  // namespace

void registerDecode(Napi::Env env, Napi::Object exports) {
  setFunction<modelStep>(exports, "modelStep");
  setFunction<modelGenerate>(exports, "modelGenerate");
}

}  // namespace aegir
