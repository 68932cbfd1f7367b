// The JavaScript class Generator: a CPU random generator (mt19937), independent of every other.
#pragma once

#include <ATen/core/Generator.h>

#include "native/bindings/handle.h"

namespace aegir {

class GeneratorHandle : public Handle<GeneratorHandle, at::Generator> {
 public:
  static constexpr const char* kName = "Generator";
  static constexpr napi_type_tag kTag{0x51e0c89d7f2a4b63, 0xa94d16fb03e7c852};

  // new Generator(seed)
  explicit GeneratorHandle(const Napi::CallbackInfo& info);

  Napi::Value seed(const Napi::CallbackInfo& info);
  Napi::Value getState(const Napi::CallbackInfo& info);
  Napi::Value setState(const Napi::CallbackInfo& info);
};

}  // namespace aegir
