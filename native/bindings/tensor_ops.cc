// The arithmetic of TensorHandle. Shapes and dims are checked first, so that what torch still refuses is the
// dtype.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/all.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/any.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>

#include <cmath>
#include <cstring>
#include <map>

#include "native/bindings/convert.h"
#include "native/bindings/tensor.h"
#include "native/core/dtype.h"

namespace aegir {
namespace {

using Unary = at::Tensor (*)(const at::Tensor&);
using UnaryTable = std::map<std::string, Unary>;

const UnaryTable& unaryOps() {
  static const UnaryTable table{
      {"neg", [](const at::Tensor& x) { return at::neg(x); }},
      {"exp", [](const at::Tensor& x) { return at::exp(x); }},
      {"log", [](const at::Tensor& x) { return at::log(x); }},
      {"sqrt", [](const at::Tensor& x) { return at::sqrt(x); }},
      {"abs", [](const at::Tensor& x) { return at::abs(x); }},
      {"sigmoid", [](const at::Tensor& x) { return at::sigmoid(x); }},
      {"tanh", [](const at::Tensor& x) { return at::tanh(x); }},
      {"relu", [](const at::Tensor& x) { return at::relu(x); }},
      {"isfinite", [](const at::Tensor& x) { return at::isfinite(x); }},
  };
  return table;
}

struct Reduction {
  at::Tensor (*all)(const at::Tensor&);
  at::Tensor (*along)(const at::Tensor&, int64_t dim, bool keepdim);
  // max, min and argmax of nothing do not exist.
  bool needsElements;
};
using ReductionTable = std::map<std::string, Reduction>;

const ReductionTable& reductions() {
  static const ReductionTable table{
      {"sum",
       {[](const at::Tensor& x) { return at::sum(x); },
        [](const at::Tensor& x, int64_t dim, bool keep) { return at::sum(x, dim, keep); }, false}},
      {"mean",
       {[](const at::Tensor& x) { return at::mean(x); },
        [](const at::Tensor& x, int64_t dim, bool keep) { return at::mean(x, dim, keep); }, false}},
      {"max",
       {[](const at::Tensor& x) { return at::amax(x); },
        [](const at::Tensor& x, int64_t dim, bool keep) { return at::amax(x, dim, keep); }, true}},
      {"min",
       {[](const at::Tensor& x) { return at::amin(x); },
        [](const at::Tensor& x, int64_t dim, bool keep) { return at::amin(x, dim, keep); }, true}},
      {"argmax",
       {[](const at::Tensor& x) { return at::argmax(x); },
        [](const at::Tensor& x, int64_t dim, bool keep) { return at::argmax(x, dim, keep); }, true}},
      {"all",
       {[](const at::Tensor& x) { return at::all(x); },
        [](const at::Tensor& x, int64_t dim, bool keep) { return at::all(x, dim, keep); }, false}},
      {"any",
       {[](const at::Tensor& x) { return at::any(x); },
        [](const at::Tensor& x, int64_t dim, bool keep) { return at::any(x, dim, keep); }, false}},
  };
  return table;
}

template <class Table>
const typename Table::mapped_type& lookUp(const Table& table, const std::string& wanted) {
  const auto found = table.find(wanted);
  if (found != table.end()) return found->second;
  std::string known;
  for (const auto& [op, unused] : table) known += (known.empty() ? "" : ", ") + op;
  fail(ErrorCode::Argument, "op: expected one of ", known, ", got '", wanted, "'");
}

// A dim of `tensor`, counted from the end where negative.
int64_t dimArg(const at::Tensor& tensor, const Napi::Value& value, const char* argument) {
  const int64_t dim = integerArg(value, argument);
  const int64_t rank = tensor.dim();
  check(dim >= -rank && dim < rank, ErrorCode::Shape, argument, ": ", dim, " is outside the ", rank,
        " dimensions of shape ", tensor.sizes());
  return dim < 0 ? dim + rank : dim;
}

// Whole numbers stay integers, so that an i64 tensor plus 1 stays i64.
at::Scalar scalarOf(double number) {
  const bool whole = std::trunc(number) == number && std::abs(number) <= 0x1p53;
  return whole ? at::Scalar(static_cast<int64_t>(number)) : at::Scalar(number);
}

template <class WithTensor, class WithScalar>
Napi::Value binary(const Napi::CallbackInfo& info, const at::Tensor& self, WithTensor withTensor,
                   WithScalar withScalar) {
  auto env = info.Env();
  if (info[0].IsNumber()) {
    const at::Scalar number = scalarOf(info[0].As<Napi::Number>().DoubleValue());
    return guard(
        env, [&] { return wrapTensor(env, withScalar(self, number)); }, ErrorCode::Dtype);
  }
  const at::Tensor other = tensorArg(info[0], "other");
  check(at::are_expandable(self.sizes(), other.sizes()), ErrorCode::Shape, "other: shapes ", self.sizes(),
        " and ", other.sizes(), " cannot be broadcast");
  return guard(
      env, [&] { return wrapTensor(env, withTensor(self, other)); }, ErrorCode::Dtype);
}

bool matmulShapesAgree(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() == 0 || b.dim() == 0) return false;
  if (a.size(-1) != b.size(b.dim() == 1 ? 0 : -2)) return false;
  return a.dim() <= 2 || b.dim() <= 2 ||
         at::are_expandable(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
}

}  // namespace

Napi::Value TensorHandle::add(const Napi::CallbackInfo& info) {
  return binary(
      info, native(), [](const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); },
      [](const at::Tensor& a, const at::Scalar& b) { return at::add(a, b); });
}

Napi::Value TensorHandle::sub(const Napi::CallbackInfo& info) {
  return binary(
      info, native(), [](const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); },
      [](const at::Tensor& a, const at::Scalar& b) { return at::sub(a, b); });
}

Napi::Value TensorHandle::mul(const Napi::CallbackInfo& info) {
  return binary(
      info, native(), [](const at::Tensor& a, const at::Tensor& b) { return at::mul(a, b); },
      [](const at::Tensor& a, const at::Scalar& b) { return at::mul(a, b); });
}

Napi::Value TensorHandle::div(const Napi::CallbackInfo& info) {
  return binary(
      info, native(), [](const at::Tensor& a, const at::Tensor& b) { return at::div(a, b); },
      [](const at::Tensor& a, const at::Scalar& b) { return at::div(a, b); });
}

Napi::Value TensorHandle::matmul(const Napi::CallbackInfo& info) {
  const at::Tensor& self = native();
  const at::Tensor other = tensorArg(info[0], "other");
  check(matmulShapesAgree(self, other), ErrorCode::Shape, "other: shapes ", self.sizes(), " and ",
        other.sizes(), " cannot be multiplied");
  return guard(
      info.Env(), [&] { return wrapTensor(info.Env(), at::matmul(self, other)); }, ErrorCode::Dtype);
}

Napi::Value TensorHandle::unary(const Napi::CallbackInfo& info) {
  return applyUnary(info.Env(), stringArg(info[0], "op"));
}

Napi::Value TensorHandle::reduce(const Napi::CallbackInfo& info) {
  return applyReduction(info.Env(), stringArg(info[0], "op"), info[1], info[2]);
}

Napi::Value TensorHandle::applyUnary(Napi::Env env, const std::string& name) {
  const at::Tensor& self = native();
  const Unary op = lookUp(unaryOps(), name);
  return guard(
      env, [&] { return wrapTensor(env, op(self)); }, ErrorCode::Dtype);
}

Napi::Value TensorHandle::applyReduction(Napi::Env env, const std::string& name, const Napi::Value& dimValue,
                                         const Napi::Value& keepdimValue) {
  const at::Tensor& self = native();
  const Reduction& op = lookUp(reductions(), name);
  check(!op.needsElements || self.numel() > 0, ErrorCode::Shape, "this: shape ", self.sizes(),
        " has no elements");
  if (isAbsent(dimValue))
    return guard(
        env, [&] { return wrapTensor(env, op.all(self)); }, ErrorCode::Dtype);
  const int64_t dim = dimArg(self, dimValue, "dim");
  const bool keepdim = isAbsent(keepdimValue) ? false : boolArg(keepdimValue, "keepdim");
  return guard(
      env, [&] { return wrapTensor(env, op.along(self, dim, keepdim)); }, ErrorCode::Dtype);
}

Napi::Value TensorHandle::softmax(const Napi::CallbackInfo& info) {
  const at::Tensor& self = native();
  const int64_t dim = dimArg(self, info[0], "dim");
  return guard(
      info.Env(), [&] { return wrapTensor(info.Env(), at::softmax(self, dim)); }, ErrorCode::Dtype);
}

Napi::Value TensorHandle::logSoftmax(const Napi::CallbackInfo& info) {
  const at::Tensor& self = native();
  const int64_t dim = dimArg(self, info[0], "dim");
  return guard(
      info.Env(), [&] { return wrapTensor(info.Env(), at::log_softmax(self, dim)); }, ErrorCode::Dtype);
}

Napi::Value TensorHandle::reshape(const Napi::CallbackInfo& info) {
  const at::Tensor& self = native();
  const auto shape = shapeArg(info[0], "shape");
  check(c10::multiply_integers(shape) == self.numel(), ErrorCode::Shape, "shape: ", at::IntArrayRef(shape),
        " does not hold the ", self.numel(), " elements of shape ", self.sizes());
  return wrapTensor(info.Env(), self.reshape(shape));
}

Napi::Value TensorHandle::transpose(const Napi::CallbackInfo& info) {
  const at::Tensor& self = native();
  return wrapTensor(info.Env(), self.transpose(dimArg(self, info[0], "dim0"), dimArg(self, info[1], "dim1")));
}

Napi::Value TensorHandle::slice(const Napi::CallbackInfo& info) {
  const at::Tensor& self = native();
  const int64_t dim = dimArg(self, info[0], "dim");
  const int64_t start = integerArg(info[1], "start", 0, self.size(dim));
  const int64_t end = integerArg(info[2], "end", start, self.size(dim));
  return wrapTensor(info.Env(), self.slice(dim, start, end));
}

Napi::Value TensorHandle::indexSelect(const Napi::CallbackInfo& info) {
  const at::Tensor& self = native();
  const int64_t dim = dimArg(self, info[0], "dim");
  const at::Tensor index = tensorArg(info[1], "index");
  checkShape(index, "index", {-1});
  checkDtype(index, "index", at::kLong);
  const bool inside = index.numel() == 0 ||
                      (index.min().item().toLong() >= 0 && index.max().item().toLong() < self.size(dim));
  check(inside, ErrorCode::Argument, "index: expected values from 0 to ", self.size(dim) - 1);
  return wrapTensor(info.Env(), at::index_select(self, dim, index.to(self.device())));
}

Napi::Value TensorHandle::to(const Napi::CallbackInfo& info) {
  const std::string target = stringArg(info[0], "target");
  const bool device = target == "cpu" || target.rfind("cuda", 0) == 0;
  return wrapTensor(info.Env(), device ? native().to(deviceArg(info[0], "target"))
                                       : native().to(dtypeArg(info[0], "target")));
}

Napi::Value TensorHandle::clone(const Napi::CallbackInfo& info) {
  return wrapTensor(info.Env(), native().clone());
}

Napi::Value TensorHandle::detach(const Napi::CallbackInfo& info) {
  return wrapTensor(info.Env(), native().detach());
}

Napi::Value TensorHandle::equal(const Napi::CallbackInfo& info) {
  const at::Tensor& self = native();
  const at::Tensor other = tensorArg(info[0], "other");
  bool same = self.sizes() == other.sizes() && self.scalar_type() == other.scalar_type();
  if (same && self.numel() > 0) {
    const at::Tensor a = self.detach().cpu().contiguous();
    const at::Tensor b = other.detach().cpu().contiguous();
    same = std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
  }
  return Napi::Boolean::New(info.Env(), same);
}

Napi::Value TensorHandle::maxAbsDiff(const Napi::CallbackInfo& info) {
  const at::Tensor& self = native();
  const at::Tensor other = tensorArg(info[0], "other");
  check(self.sizes() == other.sizes(), ErrorCode::Shape, "other: expected shape ", self.sizes(), ", got ",
        other.sizes());
  if (self.numel() == 0) return Napi::Number::New(info.Env(), 0);
  const at::Tensor a = self.detach().to(at::kDouble);
  const at::Tensor b = other.detach().to(a.options());
  // Equal infinities differ by 0, not by NaN.
  const at::Tensor difference = at::abs(at::sub(a, b)).masked_fill_(at::eq(a, b), 0.0);
  return Napi::Number::New(info.Env(), at::amax(difference).item().toDouble());
}

}  // namespace aegir
