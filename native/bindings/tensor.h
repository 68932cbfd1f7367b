// The JavaScript class Tensor: a handle on an at::Tensor. Its operations run on the JS thread, for inspection
// and glue.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>

#include "native/bindings/handle.h"

namespace aegir {

// An operation's name as a template argument.
template <size_t N>
struct OpName {
  constexpr OpName(const char (&name)[N]) { std::copy_n(name, N, text); }
  char text[N];
};

class TensorHandle : public Handle<TensorHandle, at::Tensor> {
 public:
  static constexpr const char* kName = "Tensor";
  static constexpr bool kScoped = true;

  explicit TensorHandle(const Napi::CallbackInfo& info) : Handle(info) {}

  template <class Visit>
  static void eachTensor(const at::Tensor& tensor, Visit visit) {
    visit(tensor);
  }

  // The number of dimensions; index of the dtype, index of the CUDA device or -1 and the sizes are written to
  // Tensor.layoutValues. shape, dtype and device are made of these in JavaScript (lib/native/layout.ts),
  // where an array costs a fraction of what it costs to make one from here.
  Napi::Value layout(const Napi::CallbackInfo& info);
  Napi::Value numel(const Napi::CallbackInfo& info);
  Napi::Value bytes(const Napi::CallbackInfo& info);
  Napi::Value requiresGrad(const Napi::CallbackInfo& info);
  void setRequiresGrad(const Napi::CallbackInfo& info, const Napi::Value& value);
  Napi::Value grad(const Napi::CallbackInfo& info);
  Napi::Value data(const Napi::CallbackInfo& info);
  Napi::Value toArray(const Napi::CallbackInfo& info);
  Napi::Value item(const Napi::CallbackInfo& info);

  Napi::Value add(const Napi::CallbackInfo& info);
  Napi::Value sub(const Napi::CallbackInfo& info);
  Napi::Value mul(const Napi::CallbackInfo& info);
  Napi::Value div(const Napi::CallbackInfo& info);
  Napi::Value matmul(const Napi::CallbackInfo& info);
  // unary(op) and reduce(op, dim?, keepdim?), and each operation as a method of its own.
  Napi::Value unary(const Napi::CallbackInfo& info);
  Napi::Value reduce(const Napi::CallbackInfo& info);
  template <OpName op>
  Napi::Value unaryAs(const Napi::CallbackInfo& info) {
    return applyUnary(info.Env(), op.text);
  }
  template <OpName op>
  Napi::Value reduceAs(const Napi::CallbackInfo& info) {
    return applyReduction(info.Env(), op.text, info[0], info[1]);
  }
  Napi::Value softmax(const Napi::CallbackInfo& info);
  Napi::Value logSoftmax(const Napi::CallbackInfo& info);
  Napi::Value reshape(const Napi::CallbackInfo& info);
  Napi::Value transpose(const Napi::CallbackInfo& info);
  Napi::Value slice(const Napi::CallbackInfo& info);
  Napi::Value indexSelect(const Napi::CallbackInfo& info);
  Napi::Value to(const Napi::CallbackInfo& info);
  Napi::Value clone(const Napi::CallbackInfo& info);
  Napi::Value detach(const Napi::CallbackInfo& info);
  Napi::Value equal(const Napi::CallbackInfo& info);
  Napi::Value maxAbsDiff(const Napi::CallbackInfo& info);

 private:
  Napi::Value applyUnary(Napi::Env env, const std::string& op);
  Napi::Value applyReduction(Napi::Env env, const std::string& op, const Napi::Value& dim,
                             const Napi::Value& keepdim);
};

// A copy of JavaScript numbers as a CPU tensor (tensor_data.cc), and of a tensor's values as a typed array.
// Throws ERR_DTYPE naming `argument` where `dtype` does not hold the number.
void checkElement(double value, at::ScalarType dtype, const std::string& argument);
at::Tensor tensorFromData(const Napi::Value& data, at::IntArrayRef shape, at::ScalarType dtype);
Napi::Value tensorToData(Napi::Env env, const at::Tensor& tensor);
// Nested arrays of numbers (booleans for bool); a number for a scalar.
Napi::Value tensorToNested(Napi::Env env, const at::Tensor& tensor);

}  // namespace aegir
