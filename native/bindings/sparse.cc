// Products of the linear specialists' sparse features, on the arrays themselves and at once: what a column
// takes is less than a job's way to a lane and back.
#include <algorithm>
#include <string>

#include "native/bindings/convert.h"
#include "native/bindings/register.h"
#include "native/kernels/sparse_product.h"

namespace aegir {
namespace {

using Doubles = Napi::Float64Array;

bool isArray(const Napi::Value& value, napi_typedarray_type type) {
  return value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == type;
}

template <class Array>
Array arrayOf(const Napi::Value& value, const char* name, napi_typedarray_type type, const char* expected) {
  check(isArray(value, type), ErrorCode::Argument, name, ": expected a ", expected, ", got ",
        describeValue(value));
  return value.As<Array>();
}

Doubles doublesOf(const Napi::Value& value, const char* name) {
  return arrayOf<Doubles>(value, name, napi_float64_array, "Float64Array");
}

// The rows and their columns, checked: what is read and written with them lies within the arrays.
std::pair<kernels::SparseRows, int64_t> sparseRows(const Napi::Value& value) {
  const auto object = objectArg(value, "x");
  const int64_t columns = integerField(object, "columns", 0, INT32_MAX);
  const auto starts =
      arrayOf<Napi::Int32Array>(object.Get("starts"), "x.starts", napi_int32_array, "Int32Array");
  const auto indices =
      arrayOf<Napi::Int32Array>(object.Get("indices"), "x.indices", napi_int32_array, "Int32Array");
  const auto values =
      arrayOf<Napi::Float32Array>(object.Get("values"), "x.values", napi_float32_array, "Float32Array");
  const size_t ends = starts.ElementLength(), count = indices.ElementLength();
  const int32_t *at = starts.Data(), *index = indices.Data();
  check(ends >= 1 && at[0] == 0 && std::is_sorted(at, at + ends) &&
            static_cast<size_t>(at[ends - 1]) == count && values.ElementLength() == count,
        ErrorCode::Argument,
        "x.starts: expected rising numbers from 0 to the number of indices and of values");
  check(std::all_of(index, index + count, [&](int32_t i) { return i >= 0 && i < columns; }),
        ErrorCode::Argument, "x.indices: expected columns from 0 to ", columns - 1);
  return {{static_cast<int64_t>(ends) - 1, at, index, values.Data()}, columns};
}

void checkSize(const char* name, const Napi::TypedArray& array, int64_t rows, int64_t width) {
  check(static_cast<int64_t>(array.ElementLength()) == rows * width, ErrorCode::Shape, name, ": expected ",
        rows, " x ", width, " values, got ", array.ElementLength());
}

Napi::Value product(const Napi::CallbackInfo& info) {
  const auto [x, columns] = sparseRows(info[0]);
  const int64_t width = integerArg(info[2], "width", 1, INT32_MAX);
  auto into = doublesOf(info[3], "into");
  checkSize("into", into, x.rows, width);
  const bool single = isArray(info[1], napi_float32_array);
  const auto dense = single ? info[1].As<Napi::TypedArray>() : doublesOf(info[1], "dense");
  checkSize("dense", dense, columns, width);
  if (single) {
    kernels::sparseProduct(x, dense.As<Napi::Float32Array>().Data(), width, into.Data());
  } else {
    kernels::sparseProduct(x, dense.As<Doubles>().Data(), width, into.Data());
  }
  return into;
}

Napi::Value transposedProduct(const Napi::CallbackInfo& info) {
  const auto [x, columns] = sparseRows(info[0]);
  const int64_t width = integerArg(info[2], "width", 1, INT32_MAX);
  auto dense = doublesOf(info[1], "dense"), into = doublesOf(info[3], "into");
  checkSize("dense", dense, x.rows, width);
  checkSize("into", into, columns, width);
  kernels::sparseTransposedProduct(x, dense.Data(), width, into.Data());
  return into;
}

}  // namespace

void registerSparse(Napi::Env, Napi::Object exports) {
  setFunction<product>(exports, "sparseProduct");
  setFunction<transposedProduct>(exports, "sparseTransposedProduct");
}

}  // namespace aegir
