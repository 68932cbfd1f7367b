// Without Node: the kernels of a decoding step, of every instruction set that this machine has, against plain
// ATen. AEGIR_SIMD lowers the highest.
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>

#include "native/kernels/check_support.h"
#include "native/kernels/decode_kernel.h"
#include "native/kernels/simd_level.h"

using namespace aegir;
using namespace aegir::kernels;

namespace {

template <class Real>
class Check {
 public:
  Check(Checker& checker, const std::string& isa, const DecodeKernels<Real>& kernels)
      : checker_(checker), isa_(isa), kernels_(kernels) {}

  void all() {
    for (const int64_t rows : {1, 2, 3, 4, 7}) {
      for (const int64_t in : {1, 5, 32, 40, 257}) {
        for (const int64_t out : {1, 3, 8, 33, 64}) {
          product("linear", kernels_.linear, {rows, in, out}, /*transposed=*/true);
          product("low-rank map", kernels_.lowRankMap, {rows, in, out}, /*transposed=*/false);
        }
      }
    }
    for (const int64_t width : {16, 48, 256}) norm(3, width);
    for (const int64_t headSize : {16, 32, 64, 128}) wkv7(headSize);
    activations(96);
  }

 private:
  struct Sizes {
    int64_t rows, in, out;
  };

  at::Tensor randn(at::IntArrayRef sizes) const {
    return at::randn(sizes, at::kDouble).to(c10::CppTypeToScalarType<Real>::value);
  }
  static Real* data(const at::Tensor& x) { return x.mutable_data_ptr<Real>(); }
  void close(const std::string& what, const at::Tensor& actual, const at::Tensor& expected) {
    checker_.close(isa_ + ": " + what, actual, expected, std::is_same_v<Real, double> ? 1e-12 : 2e-5);
  }

  void product(const char* what, void (*kernel)(const RowProduct<Real>&), Sizes n, bool transposed) {
    const auto x = randn({n.rows, n.in}), before = randn({n.rows, n.out});
    const auto weight = transposed ? randn({n.out, n.in}) : randn({n.in, n.out});
    const auto expected = at::matmul(x.to(at::kDouble), (transposed ? weight.t() : weight).to(at::kDouble));
    for (const bool add : {false, true}) {
      const auto y = before.clone();
      // In two parts, as two threads do it.
      for (const auto& [first, last] : {std::pair{int64_t{0}, n.out / 3}, std::pair{n.out / 3, n.out}}) {
        kernel({n.rows, n.in, n.out, first, last, data(x), data(weight), data(y), add});
      }
      close(what, y, add ? expected + before : expected);
    }
  }

  void norm(int64_t rows, int64_t width) {
    const auto x = randn({rows, width}) * 3 + 1, gain = randn({width}), bias = randn({width});
    const auto result = at::zeros_like(x);
    kernels_.layerNorm({rows, width, data(x), data(gain), data(bias), data(result)});
    close("layer norm", result,
          at::layer_norm(x.to(at::kDouble), {width}, gain.to(at::kDouble), bias.to(at::kDouble)));
  }

  void wkv7(int64_t n) {
    const auto r = randn({n}), decay = randn({n}).sigmoid(), k = randn({n}), v = randn({n});
    const auto a = randn({n}) / n, b = randn({n}) / n, state = randn({n, n}), output = at::zeros_like(r);
    const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
    const auto next = wide(state) * wide(decay) + at::matmul(wide(state), wide(a)).unsqueeze(1) * wide(b) +
                      wide(v).unsqueeze(1) * wide(k);
    kernels_.wkv7Step(
        {n, data(r), data(decay), data(k), data(v), data(a), data(b), data(state), data(output)});
    close("WKV-7 state", state, next);
    close("WKV-7 output", output, at::matmul(next, wide(r)));
  }

  void activations(int64_t count) {
    const auto x = randn({count}) * 4, factor = randn({count});
    const auto wide = x.to(at::kDouble);
    const auto apply = [&](void (*kernel)(const Activation<Real>&)) {
      const auto result = x.clone();
      kernel({count, data(result), data(factor)});
      return result;
    };
    close("tanh", apply(kernels_.tanh), wide.tanh());
    close("sigmoid", apply(kernels_.sigmoid), wide.sigmoid());
    close("gated silu", apply(kernels_.gatedSilu), at::silu(wide) * factor.to(at::kDouble));
  }

  Checker& checker_;
  std::string isa_;
  const DecodeKernels<Real>& kernels_;
};

}  // namespace

int main() {
  Checker checker;
  const DecodeTables* tables[] = {&decodeSse2, &decodeAvx2, &decodeAvx512};
  for (int level = 0; level <= static_cast<int>(simdLevel()); ++level) {
    const std::string isa = simdLevelName(static_cast<SimdLevel>(level));
    Check<float>(checker, isa + " f32", tables[level]->f32).all();
    Check<double>(checker, isa + " f64", tables[level]->f64).all();
  }
  return checker.finish("decode");
}
