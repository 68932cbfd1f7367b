// The JavaScript class Generator: a CPU random generator (mt19937), independent of every other.
#pragma once

#include <ATen/core/Generator.h>

#include "native/bindings/handle.h"

namespace aegir {

class GeneratorHandle : public Handle<GeneratorHandle, at::Generator> {
 public:
  static constexpr const char* kName = "Generator";

  // new Generator(seed)
  explicit GeneratorHandle(const Napi::CallbackInfo& info);

  Napi::Value seed(const Napi::CallbackInfo& info);
  Napi::Value getState(const Napi::CallbackInfo& info);
  Napi::Value setState(const Napi::CallbackInfo& info);
};

}  // namespace aegir
