// Arguments from JavaScript with errors that name them, and native values to JavaScript.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <napi.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "native/bindings/errors.h"
#include "native/core/cancel.h"
#include "native/core/lane.h"

namespace aegir {

// "a string", "null", "an Array", "7" … for messages.
std::string describeValue(const Napi::Value& value);
// undefined and null alike.
inline bool isAbsent(const Napi::Value& value) { return value.IsUndefined() || value.IsNull(); }

// Each throws ERR_ARGUMENT naming `argument` where the value is of another kind.
Napi::Object objectArg(const Napi::Value& value, const std::string& argument);
Napi::Array arrayArg(const Napi::Value& value, const std::string& argument);
double numberArg(const Napi::Value& value, const std::string& argument);
// An integer in [low, high], exactly representable.
int64_t integerArg(const Napi::Value& value, const std::string& argument, int64_t low = -(int64_t{1} << 53),
                   int64_t high = int64_t{1} << 53);
bool boolArg(const Napi::Value& value, const std::string& argument);
std::string stringArg(const Napi::Value& value, const std::string& argument);
std::vector<double> numberList(const Napi::Value& value, const std::string& argument);
std::vector<int64_t> integerList(const Napi::Value& value, const std::string& argument, int64_t low = 0);
std::vector<std::string> stringList(const Napi::Value& value, const std::string& argument);
// Non-negative sizes whose product fits an int64.
std::vector<int64_t> shapeArg(const Napi::Value& value, const std::string& argument);
at::ScalarType dtypeArg(const Napi::Value& value, const std::string& argument);
// "cpu", "cuda" or "cuda:<n>"; ERR_DEVICE with the reason where there is no such device.
at::Device deviceArg(const Napi::Value& value, const std::string& argument);

// Fields of an options object; absent is undefined or null.
double numberField(const Napi::Object& object, const char* name);
double numberField(const Napi::Object& object, const char* name, double fallback);
std::optional<double> optionalNumber(const Napi::Object& object, const char* name);
int64_t integerField(const Napi::Object& object, const char* name, int64_t low = 0,
                     int64_t high = int64_t{1} << 53);
bool boolField(const Napi::Object& object, const char* name, bool fallback);
std::string stringField(const Napi::Object& object, const char* name);

// Tensors. The returned at::Tensor is its own reference: the handle may be disposed afterwards.
at::Tensor tensorArg(const Napi::Value& value, const std::string& argument);
std::vector<at::Tensor> tensorList(const Napi::Value& value, const std::string& argument);
at::Tensor tensorField(const Napi::Object& object, const char* name);
// Undefined where absent, as ATen has it.
at::Tensor optionalTensor(const Napi::Object& object, const char* name);
std::vector<at::Tensor> tensorListField(const Napi::Object& object, const char* name);

// checkShape(x, "decay", {B, T, H, -1}); -1 is any size.
void checkShape(const at::Tensor& tensor, const std::string& argument,
                std::initializer_list<int64_t> expected);
void checkDtype(const at::Tensor& tensor, const std::string& argument, at::ScalarType expected);

std::shared_ptr<Lane> laneArg(const Napi::Value& value);
// Null where absent.
std::shared_ptr<CancelToken> cancelArg(const Napi::Value& value);
at::Generator generatorArg(const Napi::Value& value, const std::string& argument);

Napi::Object wrapTensor(Napi::Env env, at::Tensor tensor);
// null for an undefined tensor.
Napi::Value wrapOptionalTensor(Napi::Env env, const at::Tensor& tensor);
Napi::Array wrapTensors(Napi::Env env, const std::vector<at::Tensor>& tensors);
Napi::Array numberArray(Napi::Env env, const std::vector<double>& values);
// More than libtorch's kernels take, and than anything needs.
constexpr size_t kMaxDims = 64;
Napi::Array shapeArray(Napi::Env env, at::IntArrayRef shape);

}  // namespace aegir
