#include "native/bindings/tensor.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>

#include "native/bindings/convert.h"
#include "native/bindings/register.h"
#include "native/core/dtype.h"

namespace aegir {
namespace {

Napi::Value fromData(const Napi::CallbackInfo& info) {
  const auto shape = shapeArg(info[1], "shape");
  return wrapTensor(info.Env(), tensorFromData(info[0], shape, dtypeArg(info[2], "dtype")));
}

Napi::Value full(const Napi::CallbackInfo& info) {
  const auto shape = shapeArg(info[0], "shape");
  const auto dtype = dtypeArg(info[2], "dtype");
  const double value = numberArg(info[1], "value");
  checkElement(value, dtype, "value");
  return wrapTensor(info.Env(), at::full(shape, value, at::TensorOptions(dtype)));
}

at::ScalarType floatingDtypeArg(const Napi::Value& value) {
  const auto dtype = dtypeArg(value, "dtype");
  check(at::isFloatingType(dtype), ErrorCode::Dtype, "dtype: expected f32, f64 or bf16, got ",
        dtypeName(dtype));
  return dtype;
}

Napi::Value randn(const Napi::CallbackInfo& info) {
  const auto shape = shapeArg(info[0], "shape");
  const auto dtype = floatingDtypeArg(info[1]);
  return wrapTensor(info.Env(),
                    at::randn(shape, generatorArg(info[2], "generator"), at::TensorOptions(dtype)));
}

Napi::Value rand(const Napi::CallbackInfo& info) {
  const auto shape = shapeArg(info[0], "shape");
  const auto dtype = floatingDtypeArg(info[1]);
  return wrapTensor(info.Env(),
                    at::rand(shape, generatorArg(info[2], "generator"), at::TensorOptions(dtype)));
}

std::vector<at::Tensor> joinedTensors(const Napi::Value& value) {
  auto tensors = tensorList(value, "tensors");
  check(!tensors.empty(), ErrorCode::Argument, "tensors: expected at least one");
  return tensors;
}

Napi::Value cat(const Napi::CallbackInfo& info) {
  const auto tensors = joinedTensors(info[0]);
  const int64_t dim = integerArg(info[1], "dim");
  return guard(
      info.Env(), [&] { return wrapTensor(info.Env(), at::cat(tensors, dim)); }, ErrorCode::Shape);
}

Napi::Value stack(const Napi::CallbackInfo& info) {
  const auto tensors = joinedTensors(info[0]);
  const int64_t dim = integerArg(info[1], "dim");
  return guard(
      info.Env(), [&] { return wrapTensor(info.Env(), at::stack(tensors, dim)); }, ErrorCode::Shape);
}

// What `layout` writes to and the names of the dtypes that it writes indices of.
void defineLayout(Napi::Env env, Napi::Object constructor) {
  auto values = Napi::Float64Array::New(env, 2 + kMaxDims);
  instanceOf(env).layout = values.Data();
  instanceOf(env).layoutValues = Napi::Persistent(values.As<Napi::Object>());
  constructor.Set("layoutValues", values);
  auto names = Napi::Array::New(env, c10::NumScalarTypes);
  for (uint32_t i = 0; i < names.Length(); ++i) names.Set(i, dtypeName(static_cast<at::ScalarType>(i)));
  constructor.Set("layoutDtypes", names);
}

}  // namespace

Napi::Value TensorHandle::layout(const Napi::CallbackInfo& info) {
  const at::Tensor& tensor = native();
  const at::IntArrayRef sizes = tensor.sizes();
  check(sizes.size() <= kMaxDims, ErrorCode::Shape, "tensor: ", sizes.size(), " dimensions, at most ",
        kMaxDims);
  double* values = instanceOf(info.Env()).layout;
  *values++ = static_cast<double>(tensor.scalar_type());
  *values++ = tensor.is_cpu() ? -1 : tensor.get_device();
  for (const int64_t size : sizes) *values++ = static_cast<double>(size);
  return Napi::Number::New(info.Env(), static_cast<double>(sizes.size()));
}

Napi::Value TensorHandle::numel(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(native().numel()));
}

Napi::Value TensorHandle::bytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(native().nbytes()));
}

Napi::Value TensorHandle::requiresGrad(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), native().requires_grad());
}

void TensorHandle::setRequiresGrad(const Napi::CallbackInfo&, const Napi::Value& value) {
  at::Tensor& tensor = native();
  const bool wanted = boolArg(value, "requiresGrad");
  check(!wanted || at::isFloatingType(tensor.scalar_type()), ErrorCode::Dtype,
        "requiresGrad: a tensor of dtype ", dtypeName(tensor.scalar_type()), " has no gradient");
  check(wanted || tensor.is_leaf(), ErrorCode::Argument,
        "requiresGrad: this tensor is a result; use detach()");
  tensor.requires_grad_(wanted);
}

Napi::Value TensorHandle::grad(const Napi::CallbackInfo& info) {
  const at::Tensor& tensor = native();
  return wrapOptionalTensor(info.Env(), tensor.is_leaf() ? tensor.grad() : at::Tensor());
}

Napi::Value TensorHandle::data(const Napi::CallbackInfo& info) { return tensorToData(info.Env(), native()); }

Napi::Value TensorHandle::toArray(const Napi::CallbackInfo& info) {
  return tensorToNested(info.Env(), native());
}

Napi::Value TensorHandle::item(const Napi::CallbackInfo& info) {
  const at::Tensor& tensor = native();
  check(tensor.numel() == 1, ErrorCode::Shape, "item: expected one element, got shape ", tensor.sizes());
  return Napi::Number::New(info.Env(), tensor.item().toDouble());
}

void registerTensor(Napi::Env env, Napi::Object exports) {
  using T = TensorHandle;
  defineHandle<T>(env, exports,
                  {T::staticMethod<fromData>("fromData"),
                   T::staticMethod<full>("full"),
                   T::staticMethod<randn>("randn"),
                   T::staticMethod<rand>("rand"),
                   T::staticMethod<cat>("cat"),
                   T::staticMethod<stack>("stack"),
                   T::getter<&T::layout>("layout"),
                   T::getter<&T::numel>("numel"),
                   T::getter<&T::bytes>("bytes"),
                   T::accessor<&T::requiresGrad, &T::setRequiresGrad>("requiresGrad"),
                   T::method<&T::grad>("grad"),
                   T::method<&T::data>("data"),
                   T::method<&T::toArray>("toArray"),
                   T::method<&T::item>("item"),
                   T::method<&T::add>("add"),
                   T::method<&T::sub>("sub"),
                   T::method<&T::mul>("mul"),
                   T::method<&T::div>("div"),
                   T::method<&T::matmul>("matmul"),
                   T::method<&T::unary>("unary"),
                   T::method<&T::reduce>("reduce"),
                   T::method<&T::unaryAs<"neg">>("neg"),
                   T::method<&T::unaryAs<"exp">>("exp"),
                   T::method<&T::unaryAs<"log">>("log"),
                   T::method<&T::unaryAs<"sqrt">>("sqrt"),
                   T::method<&T::unaryAs<"abs">>("abs"),
                   T::method<&T::unaryAs<"sigmoid">>("sigmoid"),
                   T::method<&T::unaryAs<"tanh">>("tanh"),
                   T::method<&T::unaryAs<"relu">>("relu"),
                   T::method<&T::unaryAs<"isfinite">>("isfinite"),
                   T::method<&T::reduceAs<"sum">>("sum"),
                   T::method<&T::reduceAs<"mean">>("mean"),
                   T::method<&T::reduceAs<"max">>("max"),
                   T::method<&T::reduceAs<"min">>("min"),
                   T::method<&T::reduceAs<"argmax">>("argmax"),
                   T::method<&T::reduceAs<"all">>("all"),
                   T::method<&T::reduceAs<"any">>("any"),
                   T::method<&T::softmax>("softmax"),
                   T::method<&T::logSoftmax>("logSoftmax"),
                   T::method<&T::reshape>("reshape"),
                   T::method<&T::transpose>("transpose"),
                   T::method<&T::slice>("slice"),
                   T::method<&T::indexSelect>("indexSelect"),
                   T::method<&T::to>("to"),
                   T::method<&T::clone>("clone"),
                   T::method<&T::detach>("detach"),
                   T::method<&T::equal>("equal"),
                   T::method<&T::maxAbsDiff>("maxAbsDiff")});
  defineLayout(env, exports.Get(T::kName).As<Napi::Object>());
}

}  // namespace aegir
