// Compares the WKV-7 kernels with the reference in float64: values, every gradient, ragged, packed and
// strided inputs.
#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>

#include "native/kernels/check_support.h"
#include "native/kernels/sequence_layout.h"
#include "native/kernels/simd_level.h"
#include "native/kernels/wkv7.h"

namespace aegir::kernels {
namespace {

struct Case {
  std::string name;
  int64_t batch, tokens, heads, headSize;
  at::ScalarType type = at::kDouble;
  bool initialState = true;
  std::vector<int64_t> lengths = {};
  std::vector<int64_t> cuSeqlens = {};
  bool strided = false;
};

double tolerance(at::ScalarType type) {
  return type == at::kDouble ? 1e-11 : type == at::kFloat ? 2e-5 : 2e-2;  // bf16 rounds results to 8 bits
}

at::Tensor indexTensor(const std::vector<int64_t>& values) {
  return values.empty() ? at::Tensor() : at::tensor(values, at::kLong);
}

// kk of unit length and decay in (0.54, 1), as the model makes them.
Wkv7Input randomInput(const Case& c) {
  const auto random = [&] {
    if (!c.strided) return at::randn({c.batch, c.tokens, c.heads, c.headSize}, at::kDouble);
    return at::randn({c.heads, c.tokens, c.batch, 2 * c.headSize}, at::kDouble)
        .transpose(0, 2)
        .slice(3, 0, {}, 2);
  };
  const at::Tensor kk = random();
  const at::Tensor unit = kk / kk.norm(2, {-1}, true);
  const int64_t sequences = c.cuSeqlens.empty() ? c.batch : static_cast<int64_t>(c.cuSeqlens.size()) - 1;
  Wkv7Input input{random(),
                  (random().sigmoid() * -0.6065306597126334).exp(),
                  random(),
                  random(),
                  -unit,
                  unit * random().sigmoid(),
                  {},
                  indexTensor(c.lengths),
                  indexTensor(c.cuSeqlens)};
  if (c.initialState)
    input.initialState = at::randn({sequences, c.heads, c.headSize, c.headSize}, at::kDouble);
  return input;
}

std::vector<at::Tensor*> floating(Wkv7Input& input) {
  std::vector<at::Tensor*> all{&input.r, &input.decay, &input.k, &input.v, &input.a, &input.b};
  if (input.initialState.defined()) all.push_back(&input.initialState);
  return all;
}

// A leaf copy in the given dtype; NaN at padded positions of token tensors.
Wkv7Input leaves(const Wkv7Input& source, at::ScalarType type, bool poison) {
  Wkv7Input input = source;
  const at::Tensor padding = validPositions(source.r.size(0), source.r.size(1), source.lengths)
                                 .logical_not()
                                 .unsqueeze(-1)
                                 .unsqueeze(-1);
  for (at::Tensor* x : floating(input)) {
    const bool state = x == &input.initialState;
    *x = x->detach().to(state && type == at::kBFloat16 ? at::kFloat : type);
    if (poison && !state) *x = x->masked_fill(padding, NAN);
    x->set_requires_grad(true);
  }
  return input;
}

using Operator = std::tuple<at::Tensor, at::Tensor> (*)(const Wkv7Input&);

void compare(Checker& checker, const Case& c, Operator run = wkv7) {
  const Wkv7Input source = leaves(randomInput(c), c.type, false);  // rounded to the dtype under test
  Wkv7Input expected = leaves(source, at::kDouble, false), actual = leaves(source, c.type, true);
  const auto [output, state] = wkv7Reference(expected);
  const auto [kernelOutput, kernelState] = run(actual);
  checker.close(c.name + " output", kernelOutput, output, tolerance(c.type));
  checker.close(c.name + " state", kernelState, state, tolerance(c.type));
  {
    const at::NoGradGuard guard;
    const auto [plainOutput, plainState] = run(actual);
    checker.close(c.name + " output without gradients", plainOutput, kernelOutput, 0);
    checker.close(c.name + " state without gradients", plainState, kernelState, 0);
  }
  const std::vector<at::Tensor> weights{at::randn(output.sizes(), at::kDouble).to(c.type).to(at::kDouble),
                                        at::randn(state.sizes(), at::kDouble)};
  std::vector<at::Tensor> expectedInputs, actualInputs;
  for (at::Tensor* x : floating(expected)) expectedInputs.push_back(*x);
  for (at::Tensor* x : floating(actual)) actualInputs.push_back(*x);
  const auto expectedGrads = gradients({output, state}, weights, expectedInputs);
  const auto actualGrads = gradients({kernelOutput, kernelState}, weights, actualInputs);
  const char* names[] = {"r", "decay", "k", "v", "a", "b", "initialState"};
  for (size_t i = 0; i < actualGrads.size(); ++i) {
    checker.close(c.name + " grad " + names[i], actualGrads[i], expectedGrads[i], tolerance(c.type));
  }
}

void splitEverywhere(Checker& checker) {
  const Wkv7Input whole = randomInput({"split", 2, 35, 2, 16});
  const auto [output, state] = wkv7(whole);
  for (int64_t at = 0; at <= 35; ++at) {
    const auto part = [&](int64_t from, int64_t to, const at::Tensor& initial) {
      const auto cut = [&](const at::Tensor& x) { return x.slice(1, from, to); };
      return wkv7({cut(whole.r),
                   cut(whole.decay),
                   cut(whole.k),
                   cut(whole.v),
                   cut(whole.a),
                   cut(whole.b),
                   initial,
                   {},
                   {}});
    };
    const auto [head, middle] = part(0, at, whole.initialState);
    const auto [tail, last] = part(at, 35, middle);
    const std::string name = "split at " + std::to_string(at);
    checker.close(name + " output", at::cat({head, tail}, 1), output, 1e-12);
    checker.close(name + " state", last, state, 1e-12);
  }
}

void badInput(Checker& checker) {
  const Wkv7Input good = randomInput({"bad", 2, 3, 2, 8});
  const auto refuses = [&](ErrorCode code, const std::string& named, auto&& spoil) {
    Wkv7Input input = good;
    spoil(input);
    checker.throws("bad " + named, code, named, [&] { wkv7(input); });
  };
  refuses(ErrorCode::Shape, "r", [](Wkv7Input& x) { x.r = x.r[0]; });
  refuses(ErrorCode::Shape, "decay", [](Wkv7Input& x) { x.decay = x.decay.slice(1, 1); });
  refuses(ErrorCode::Dtype, "k", [](Wkv7Input& x) { x.k = x.k.to(at::kFloat); });
  refuses(ErrorCode::Argument, "b", [](Wkv7Input& x) { x.b = at::Tensor(); });
  refuses(ErrorCode::Dtype, "initialState",
          [](Wkv7Input& x) { x.initialState = x.initialState.to(at::kFloat); });
  refuses(ErrorCode::Shape, "initialState", [](Wkv7Input& x) { x.initialState = x.initialState[0]; });
  refuses(ErrorCode::Argument, "lengths", [](Wkv7Input& x) { x.lengths = indexTensor({1, 4}); });
  refuses(ErrorCode::Shape, "lengths", [](Wkv7Input& x) { x.lengths = indexTensor({1}); });
  refuses(ErrorCode::Shape, "cuSeqlens", [](Wkv7Input& x) { x.cuSeqlens = indexTensor({0, 3}); });
}

// The CUDA kernels on the CPU.
void emulated(Checker& checker, const std::string& prefix, at::ScalarType type) {
  const auto check = [&](const Case& c) { compare(checker, c, wkv7Cuda); };
  for (int64_t headSize : {32, 64, 128}) check({prefix + std::to_string(headSize), 2, 37, 2, headSize, type});
  for (int64_t tokens : {0, 1, 7, 8, 9, 16, 17}) {
    check({prefix + "T " + std::to_string(tokens), 2, tokens, 1, 32, type});
  }
  check({prefix + "no initial state", 2, 21, 2, 32, type, false});
  check({prefix + "B 0", 0, 5, 2, 32, type});
  check({prefix + "ragged", 5, 40, 2, 32, type, true, {40, 0, 1, 16, 33}});
  check({prefix + "packed", 1, 60, 2, 32, type, true, {}, {0, 17, 17, 18, 60}});
  check({prefix + "packed from zeros", 1, 40, 2, 64, type, false, {}, {0, 0, 16, 40}});
  check({prefix + "strided", 3, 19, 2, 32, type, true, {19, 4, 18}, {}, true});
}

int run() {
  openEmulatedCuda();
  Checker checker;
  const uint64_t seed = 20260101;
  at::manual_seed(seed);
  std::printf("simd %s, seed %llu\n", simdLevelName(simdLevel()), static_cast<unsigned long long>(seed));
  for (const auto& [type, name] :
       {std::pair{at::kDouble, "f64 "}, {at::kFloat, "f32 "}, {at::kBFloat16, "bf16 "}}) {
    const std::string prefix = name;
    for (int64_t headSize : {8, 16, 32, 64, 128}) {
      compare(checker, {prefix + "N " + std::to_string(headSize), 2, 37, 2, headSize, type});
    }
    for (int64_t headSize : {1, 3, 20, 33}) {
      compare(checker, {prefix + "odd N " + std::to_string(headSize), 1, 18, 3, headSize, type});
    }
    for (int64_t tokens : {0, 1, 2, 15, 16, 17, 32, 33}) {
      compare(checker, {prefix + "T " + std::to_string(tokens), 3, tokens, 1, 16, type});
    }
    compare(checker, {prefix + "no initial state", 2, 21, 2, 32, type, false});
    compare(checker, {prefix + "B 0", 0, 5, 2, 16, type});
    compare(checker, {prefix + "ragged", 5, 40, 2, 32, type, true, {40, 0, 1, 16, 33}});
    compare(checker, {prefix + "ragged from zeros", 3, 20, 1, 16, type, false, {0, 7, 20}});
    compare(checker, {prefix + "packed", 1, 60, 2, 32, type, true, {}, {0, 17, 17, 18, 60}});
    compare(checker, {prefix + "packed from zeros", 1, 40, 2, 16, type, false, {}, {0, 0, 16, 40}});
    compare(checker, {prefix + "strided", 3, 19, 2, 16, type, true, {19, 4, 18}, {}, true});
  }
  emulated(checker, "emulated CUDA f32 ", at::kFloat);
  emulated(checker, "emulated CUDA bf16 ", at::kBFloat16);
  splitEverywhere(checker);
  badInput(checker);
  return checker.finish("wkv7_check");
}

}  // namespace
}  // namespace aegir::kernels

int main() { return aegir::kernels::run(); }
