// Copies between JavaScript arrays and CPU tensors.
#include <ATen/ops/empty.h>

#include <cmath>
#include <cstring>

#include "native/bindings/convert.h"
#include "native/bindings/tensor.h"
#include "native/core/dtype.h"

namespace aegir {
namespace {

// The dtype whose layout a typed array has. 16-bit words are bf16 patterns.
std::optional<at::ScalarType> elementType(napi_typedarray_type type) {
  switch (type) {
    case napi_float32_array: return at::kFloat;
    case napi_float64_array: return at::kDouble;
    case napi_uint16_array: return at::kBFloat16;
    case napi_bigint64_array: return at::kLong;
    case napi_int32_array: return at::kInt;
    case napi_uint8_array: return at::kByte;
    default: return std::nullopt;
  }
}

// Of the view itself: its buffer may be a SharedArrayBuffer, which has no accessor.
const void* bytesOf(const Napi::TypedArray& array) {
  void* data = nullptr;
  napi_get_typedarray_info(array.Env(), array, nullptr, nullptr, &data, nullptr, nullptr);
  return data;
}

void checkLength(size_t length, at::IntArrayRef shape) {
  const int64_t expected = c10::multiply_integers(shape);
  check(static_cast<int64_t>(length) == expected, ErrorCode::Shape, "data: shape ", shape, " takes ",
        expected, " elements, got ", length);
}

at::Tensor fromTypedArray(const Napi::TypedArray& array, at::IntArrayRef shape, at::ScalarType dtype) {
  const auto source = elementType(array.TypedArrayType());
  check(source.has_value(), ErrorCode::Dtype,
        "data: expected a Float32Array, Float64Array, Uint16Array (bf16), BigInt64Array, Int32Array or "
        "Uint8Array");
  checkLength(array.ElementLength(), shape);
  check(*source != at::kBFloat16 || dtype == at::kBFloat16, ErrorCode::Dtype,
        "data: a Uint16Array holds bf16 bit patterns and cannot become ", dtypeName(dtype));
  check(!at::isFloatingType(*source) || at::isFloatingType(dtype), ErrorCode::Dtype,
        "data: floating-point values cannot become ", dtypeName(dtype), "; convert them first");
  at::Tensor tensor = at::empty(shape, at::TensorOptions(*source));
  if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), bytesOf(array), tensor.nbytes());
  if (dtype == at::kByte && *source != at::kByte) {
    const bool fits =
        tensor.numel() == 0 || (tensor.min().item().toLong() >= 0 && tensor.max().item().toLong() <= 255);
    check(fits, ErrorCode::Dtype, "data: expected values from 0 to 255 for u8");
  }
  return tensor.to(dtype);
}

}  // namespace

void checkElement(double value, at::ScalarType dtype, const std::string& argument) {
  if (at::isFloatingType(dtype)) return;
  const double low = dtype == at::kLong ? -0x1p53 : 0.0;
  const double high = dtype == at::kLong ? 0x1p53 : dtype == at::kByte ? 255.0 : 1.0;
  check(std::trunc(value) == value && value >= low && value <= high, ErrorCode::Dtype, argument, ": ", value,
        " is no ", dtypeName(dtype), " value");
}

namespace {

at::Tensor fromNumbers(const Napi::Array& array, at::IntArrayRef shape, at::ScalarType dtype) {
  const uint32_t length = array.Length();
  checkLength(length, shape);
  at::Tensor tensor = at::empty(shape, at::TensorOptions(at::kDouble));
  double* values = tensor.mutable_data_ptr<double>();
  for (uint32_t i = 0; i < length; ++i) {
    Napi::HandleScope scope(array.Env());
    const std::string element = "data[" + std::to_string(i) + "]";
    values[i] = numberArg(array.Get(i), element);
    checkElement(values[i], dtype, element);
  }
  return tensor.to(dtype);
}

template <class Array>
Napi::Value copyOut(Napi::Env env, const at::Tensor& tensor) {
  auto array = Array::New(env, static_cast<size_t>(tensor.numel()));
  if (tensor.nbytes() > 0) std::memcpy(array.Data(), tensor.const_data_ptr(), tensor.nbytes());
  return array;
}

// `values` f64, contiguous, walked in order as the nesting goes.
Napi::Value nest(Napi::Env env, at::IntArrayRef shape, const double*& values, bool asBoolean) {
  if (shape.empty()) {
    const double value = *values++;
    return asBoolean ? static_cast<Napi::Value>(Napi::Boolean::New(env, value != 0))
                     : static_cast<Napi::Value>(Napi::Number::New(env, value));
  }
  auto array = Napi::Array::New(env, static_cast<size_t>(shape[0]));
  for (uint32_t i = 0; i < static_cast<uint32_t>(shape[0]); ++i) {
    Napi::HandleScope scope(env);
    array.Set(i, nest(env, shape.slice(1), values, asBoolean));
  }
  return array;
}

}  // namespace

at::Tensor tensorFromData(const Napi::Value& data, at::IntArrayRef shape, at::ScalarType dtype) {
  if (data.IsTypedArray()) return fromTypedArray(data.As<Napi::TypedArray>(), shape, dtype);
  if (data.IsArray()) return fromNumbers(data.As<Napi::Array>(), shape, dtype);
  fail(ErrorCode::Argument, "data: expected a typed array or an array of numbers, got ", describeValue(data));
}

Napi::Value tensorToNested(Napi::Env env, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().cpu().to(at::kDouble).contiguous();
  const double* next = values.const_data_ptr<double>();
  return nest(env, tensor.sizes(), next, tensor.scalar_type() == at::kBool);
}

Napi::Value tensorToData(Napi::Env env, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().cpu().contiguous();
  switch (values.scalar_type()) {
    case at::kFloat: return copyOut<Napi::Float32Array>(env, values);
    case at::kDouble: return copyOut<Napi::Float64Array>(env, values);
    case at::kBFloat16: return copyOut<Napi::Uint16Array>(env, values);
    case at::kLong: return copyOut<Napi::BigInt64Array>(env, values);
    case at::kBool:
    case at::kByte: return copyOut<Napi::Uint8Array>(env, values);
    default:
      fail(ErrorCode::Dtype, "data: dtype ", dtypeName(values.scalar_type()), " has no JavaScript array");
  }
}

}  // namespace aegir
