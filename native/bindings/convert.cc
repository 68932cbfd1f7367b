#include "native/bindings/convert.h"

#include <cmath>

#include "native/bindings/generator.h"
#include "native/bindings/lane.h"
#include "native/bindings/tensor.h"
#include "native/core/dtype.h"
#include "native/core/streams.h"
#include "native/cuda/loader.h"

namespace aegir {
namespace {

[[noreturn]] void wrongKind(const std::string& argument, const char* expected, const Napi::Value& value) {
  fail(ErrorCode::Argument, argument, ": expected ", expected, ", got ", describeValue(value));
}

std::string element(const std::string& argument, uint32_t index) {
  return argument + "[" + std::to_string(index) + "]";
}

template <class Read>
auto readList(const Napi::Value& value, const std::string& argument, Read read) {
  auto array = arrayArg(value, argument);
  std::vector<decltype(read(Napi::Value(), argument))> result;
  result.reserve(array.Length());
  for (uint32_t i = 0; i < array.Length(); ++i) {
    // A scope per element keeps a long list from piling up handles.
    Napi::HandleScope scope(value.Env());
    result.push_back(read(array.Get(i), element(argument, i)));
  }
  return result;
}

}  // namespace

std::string describeValue(const Napi::Value& value) {
  if (value.IsEmpty() || value.IsUndefined()) return "undefined";
  if (value.IsNull()) return "null";
  if (value.IsNumber() || value.IsBoolean()) return value.ToString().Utf8Value();
  if (value.IsString()) {
    const std::string text = value.As<Napi::String>().Utf8Value();
    return text.size() <= 60 ? "'" + text + "'" : "a string of " + std::to_string(text.size()) + " bytes";
  }
  if (value.IsArray()) return "an array of " + std::to_string(value.As<Napi::Array>().Length());
  if (value.IsTypedArray()) return "a typed array";
  if (value.IsFunction()) return "a function";
  if (value.IsBigInt()) return "a bigint";
  return "an object of another kind";
}

Napi::Object objectArg(const Napi::Value& value, const std::string& argument) {
  if (!value.IsObject() || value.IsFunction()) wrongKind(argument, "an object", value);
  return value.As<Napi::Object>();
}

Napi::Array arrayArg(const Napi::Value& value, const std::string& argument) {
  if (!value.IsArray()) wrongKind(argument, "an array", value);
  return value.As<Napi::Array>();
}

double numberArg(const Napi::Value& value, const std::string& argument) {
  if (!value.IsNumber()) wrongKind(argument, "a number", value);
  return value.As<Napi::Number>().DoubleValue();
}

int64_t integerArg(const Napi::Value& value, const std::string& argument, int64_t low, int64_t high) {
  const double number = numberArg(value, argument);
  if (!(std::trunc(number) == number && number >= static_cast<double>(low) &&
        number <= static_cast<double>(high))) {
    fail(ErrorCode::Argument, argument, ": expected an integer from ", low, " to ", high, ", got ", number);
  }
  return static_cast<int64_t>(number);
}

bool boolArg(const Napi::Value& value, const std::string& argument) {
  if (!value.IsBoolean()) wrongKind(argument, "a boolean", value);
  return value.As<Napi::Boolean>().Value();
}

std::string stringArg(const Napi::Value& value, const std::string& argument) {
  if (!value.IsString()) wrongKind(argument, "a string", value);
  return value.As<Napi::String>().Utf8Value();
}

std::vector<double> numberList(const Napi::Value& value, const std::string& argument) {
  return readList(value, argument, numberArg);
}

std::vector<int64_t> integerList(const Napi::Value& value, const std::string& argument, int64_t low) {
  return readList(value, argument, [low](const Napi::Value& number, const std::string& name) {
    return integerArg(number, name, low);
  });
}

std::vector<std::string> stringList(const Napi::Value& value, const std::string& argument) {
  return readList(value, argument, stringArg);
}

std::vector<int64_t> shapeArg(const Napi::Value& value, const std::string& argument) {
  auto shape = integerList(value, argument);
  // As many as ATen's operators take.
  check(shape.size() <= kMaxDims, ErrorCode::Shape, argument, ": ", shape.size(),
        " dimensions, expected at most ", kMaxDims);
  int64_t numel = 1;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(numel, size, &numel) || numel > (int64_t{1} << 48)) {
      fail(ErrorCode::Shape, argument, ": ", at::IntArrayRef(shape), " has too many elements");
    }
  }
  return shape;
}

at::ScalarType dtypeArg(const Napi::Value& value, const std::string& argument) {
  const std::string name = stringArg(value, argument);
  const auto dtype = dtypeFromName(name);
  if (!dtype)
    fail(ErrorCode::Dtype, argument, ": expected f32, f64, bf16, i64, bool or u8, got '", name, "'");
  return *dtype;
}

at::Device deviceArg(const Napi::Value& value, const std::string& argument) {
  const std::string name = stringArg(value, argument);
  if (name == "cpu") return at::Device(at::kCPU);
  const bool plain = name == "cuda",
             numbered = name.rfind("cuda:", 0) == 0 && name.size() <= 8 &&
                        name.find_first_not_of("0123456789", 5) == std::string::npos && name.size() > 5;
  check(plain || numbered, ErrorCode::Device, argument, ": expected cpu, cuda or cuda:<n>, got '", name, "'");
  const cuda::Status& status = cuda::status();
  check(status.reason.empty(), ErrorCode::Device, argument, ": '", name,
        "' is not usable here: ", status.reason);
  const int index = plain ? 0 : std::stoi(name.substr(5));
  check(index < static_cast<int>(status.devices.size()), ErrorCode::Device, argument, ": '", name,
        "' is not there, there are ", status.devices.size(), " devices");
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(index));
  streams::use(device);
  return device;
}

double numberField(const Napi::Object& object, const char* name) { return numberArg(object.Get(name), name); }

double numberField(const Napi::Object& object, const char* name, double fallback) {
  return optionalNumber(object, name).value_or(fallback);
}

std::optional<double> optionalNumber(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (isAbsent(value)) return std::nullopt;
  return numberArg(value, name);
}

int64_t integerField(const Napi::Object& object, const char* name, int64_t low, int64_t high) {
  return integerArg(object.Get(name), name, low, high);
}

bool boolField(const Napi::Object& object, const char* name, bool fallback) {
  const Napi::Value value = object.Get(name);
  return isAbsent(value) ? fallback : boolArg(value, name);
}

std::string stringField(const Napi::Object& object, const char* name) {
  return stringArg(object.Get(name), name);
}

at::Tensor tensorArg(const Napi::Value& value, const std::string& argument) {
  const at::Tensor& tensor = nativeArg<TensorHandle>(value, argument.c_str());
  streams::noteRead(tensor);
  return tensor;
}

std::vector<at::Tensor> tensorList(const Napi::Value& value, const std::string& argument) {
  return readList(value, argument, tensorArg);
}

at::Tensor tensorField(const Napi::Object& object, const char* name) {
  return tensorArg(object.Get(name), name);
}

at::Tensor optionalTensor(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  return isAbsent(value) ? at::Tensor() : tensorArg(value, name);
}

std::vector<at::Tensor> tensorListField(const Napi::Object& object, const char* name) {
  return tensorList(object.Get(name), name);
}

void checkShape(const at::Tensor& tensor, const std::string& argument,
                std::initializer_list<int64_t> expected) {
  bool matches = tensor.dim() == static_cast<int64_t>(expected.size());
  int64_t dim = 0;
  for (int64_t size : expected) {
    if (matches && size >= 0) matches = tensor.size(dim) == size;
    ++dim;
  }
  if (!matches) {
    std::string wanted;
    for (int64_t size : expected)
      wanted += (wanted.empty() ? "" : ", ") + (size < 0 ? "any" : std::to_string(size));
    fail(ErrorCode::Shape, argument, ": expected shape [", wanted, "], got ", tensor.sizes());
  }
}

void checkDtype(const at::Tensor& tensor, const std::string& argument, at::ScalarType expected) {
  if (tensor.scalar_type() != expected) {
    fail(ErrorCode::Dtype, argument, ": expected ", dtypeName(expected), ", got ",
         dtypeName(tensor.scalar_type()));
  }
}

std::shared_ptr<Lane> laneArg(const Napi::Value& value) { return nativeArg<LaneHandle>(value, "lane"); }

std::shared_ptr<CancelToken> cancelArg(const Napi::Value& value) {
  return isAbsent(value) ? nullptr : nativeArg<CancelTokenHandle>(value, "cancel");
}

at::Generator generatorArg(const Napi::Value& value, const std::string& argument) {
  return nativeArg<GeneratorHandle>(value, argument.c_str());
}

Napi::Object wrapTensor(Napi::Env env, at::Tensor tensor) {
  return makeHandle<TensorHandle>(env, std::move(tensor));
}

Napi::Value wrapOptionalTensor(Napi::Env env, const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<Napi::Value>(wrapTensor(env, tensor)) : env.Null();
}

Napi::Array wrapTensors(Napi::Env env, const std::vector<at::Tensor>& tensors) {
  auto array = Napi::Array::New(env, tensors.size());
  for (uint32_t i = 0; i < tensors.size(); ++i) array.Set(i, wrapTensor(env, tensors[i]));
  return array;
}

Napi::Array numberArray(Napi::Env env, const std::vector<double>& values) {
  auto array = Napi::Array::New(env, values.size());
  for (uint32_t i = 0; i < values.size(); ++i) array.Set(i, values[i]);
  return array;
}

Napi::Array shapeArray(Napi::Env env, at::IntArrayRef shape) {
  return numberArray(env, {shape.begin(), shape.end()});
}

}  // namespace aegir
