// The JavaScript class State: the recurrent state of a backbone.
#pragma once

#include "native/bindings/convert.h"
#include "native/bindings/handle.h"
#include "native/model/state.h"

namespace aegir {

class StateHandle : public Handle<StateHandle, model::AegirState> {
 public:
  static constexpr const char* kName = "State";
  static constexpr bool kScoped = true;

  explicit StateHandle(const Napi::CallbackInfo& info) : Handle(info) {}

  template <class Visit>
  static void eachTensor(const model::AegirState& state, Visit visit) {
    for (const auto& [name, tensor] : state.tensors()) visit(tensor);
  }

  // Handles that keep their graph, unlike a state dict's: gradients flow from the final state.
  Napi::Value tensors(const Napi::CallbackInfo& info) {
    auto record = Napi::Object::New(info.Env());
    for (const auto& [name, tensor] : native().tensors()) record.Set(name, wrapTensor(info.Env(), tensor));
    return record;
  }
  Napi::Value innerKv(const Napi::CallbackInfo& info) {
    auto list = Napi::Array::New(info.Env());
    for (const auto& layer : layersArg(info[0])) {
      if (layer.attKv.defined()) list.Set(list.Length(), wrapTensor(info.Env(), layer.attKv));
    }
    return list;
  }
  Napi::Value innerShift(const Napi::CallbackInfo& info) {
    auto list = Napi::Array::New(info.Env());
    for (const auto& layer : layersArg(info[0])) {
      for (const auto& vector : {layer.attXPrev, layer.ffnXPrev}) {
        if (vector.defined()) list.Set(list.Length(), wrapTensor(info.Env(), vector));
      }
    }
    return list;
  }
  Napi::Value selectRows(const Napi::CallbackInfo& info) {
    return makeHandle<StateHandle>(info.Env(), native().selectRows(tensorArg(info[0], "rows")));
  }

 private:
  // Of the innermost stage where `stage` is absent.
  std::vector<model::BlockState> layersArg(const Napi::Value& stage) {
    const int64_t innermost = native().innermost();
    return native().innerLayers(isAbsent(stage) ? innermost : integerArg(stage, "stage", 0, innermost));
  }
};

}  // namespace aegir
