// Compares the WKV-7 kernels with the reference in float64: values, every gradient, ragged, packed and
// strided inputs.
#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rand.h>

#include "native/kernels/check_support.h"
#include "native/kernels/sequence_layout.h"
#include "native/kernels/simd_level.h"
#include "native/kernels/wkv7.h"

namespace aegir::kernels {
namespace {

struct Case {
  std::string name;
  int64_t batch = 0, tokens = 0, heads = 0, headSize = 0;
  at::ScalarType type = at::kDouble;
  bool initialState = true;
  std::vector<int64_t> lengths = {};
  std::vector<int64_t> cuSeqlens = {};
  bool strided = false;
  Wkv7CudaForm form = Wkv7CudaForm::Recurrent;
  bool hard = false;  // the model's strongest decay, and keys that hardly change from token to token
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
  const at::Tensor kk = c.hard ? random().mul(0.1).add(random().slice(1, 0, 1)) : random();
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
                  indexTensor(c.cuSeqlens),
                  c.form};
  if (c.hard) input.decay = at::full_like(input.decay, 0.5454);
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

// The same tolerance as for the recurrent form: factors rounded to bf16 are off by 2^-9 each, at random, so
// sums of their products, and of those once more (u, then its part of outputs, states and gradients), are off
// by a few 2^-9 = 0.002 of their size; results are rounded by as much again.
void emulatedChunked(Checker& checker, const std::string& prefix, int64_t headSize) {
  const auto check = [&](Case c, bool fromZeros = false) {
    c.name = prefix + std::to_string(headSize) + c.name;
    c.headSize = headSize;
    c.type = at::kBFloat16;
    c.form = Wkv7CudaForm::Chunked;
    c.initialState = !fromZeros;
    compare(checker, c, wkv7Cuda);
  };
  for (int64_t tokens : {0, 1, 15, 16, 17, 33, 50}) {
    check({" T " + std::to_string(tokens), 2, tokens, 1});
  }
  check({" B 0", 0, 5, 2});
  check({.name = " hard", .batch = 1, .tokens = 40, .heads = 2, .hard = true});
  check({.name = " strided", .batch = 3, .tokens = 19, .heads = 2, .lengths = {19, 4, 18}, .strided = true});
  for (bool fromZeros : {false, true}) {
    check({.name = " ragged", .batch = 5, .tokens = 40, .heads = 2, .lengths = {40, 0, 1, 16, 33}},
          fromZeros);
    check({.name = " packed", .batch = 1, .tokens = 60, .heads = 2, .cuSeqlens = {0, 17, 17, 18, 60}},
          fromZeros);
  }
}

// AEGIR_WKV7_CUDA is read at the first use; a wrong one is refused as often as it is met.
void formOfEnvironment(Checker& checker) {
  const Case c{.name = "", .batch = 1, .tokens = 20, .heads = 1, .headSize = 32, .type = at::kBFloat16};
  Wkv7Input input = leaves(randomInput(c), c.type, false);
  const at::NoGradGuard guard;
  const auto outputOf = [&](Wkv7CudaForm form) {
    input.cudaForm = form;
    return std::get<0>(wkv7Cuda(input));
  };
  setenv("AEGIR_WKV7_CUDA", "fast", 1);
  checker.throws("AEGIR_WKV7_CUDA", ErrorCode::Argument, "recurrent or chunked, got fast",
                 [&] { outputOf(Wkv7CudaForm::Automatic); });
  setenv("AEGIR_WKV7_CUDA", "chunked", 1);
  const at::Tensor chunked = outputOf(Wkv7CudaForm::Chunked);
  checker.close("AEGIR_WKV7_CUDA=chunked", outputOf(Wkv7CudaForm::Automatic), chunked, 0);
  checker.check("the forms differ", !chunked.equal(outputOf(Wkv7CudaForm::Recurrent)));
}

// Prints what bf16 costs either form: the root mean square of the error, relative to that of the values in
// f64.
void printErrors() {
  const Case c{.name = "", .batch = 1, .tokens = 1024, .heads = 2, .headSize = 64, .type = at::kBFloat16};
  const Wkv7Input source = leaves(randomInput(c), at::kBFloat16, false);
  const at::Tensor weights = at::randn(source.r.sizes(), at::kDouble).to(at::kBFloat16).to(at::kDouble);
  const at::Tensor stateWeights =
      at::randn(source.initialState.sizes(), at::kDouble).to(at::kFloat).to(at::kDouble);
  const auto resultsOf = [&](at::ScalarType type, Wkv7CudaForm form, Operator run) {
    Wkv7Input input = leaves(source, type, false);
    input.cudaForm = form;
    std::vector<at::Tensor> inputs;
    for (at::Tensor* x : floating(input)) inputs.push_back(*x);
    const auto [output, state] = run(input);
    std::vector<at::Tensor> results = gradients({output, state}, {weights, stateWeights}, inputs);
    results.insert(results.begin(), {output, state});
    return results;
  };
  const auto expected = resultsOf(at::kDouble, Wkv7CudaForm::Automatic, wkv7Reference);
  const char* names[] = {"output", "state",  "grad r", "grad decay", "grad k",
                         "grad v", "grad a", "grad b", "grad state"};
  for (const auto& [form, name] :
       {std::pair{Wkv7CudaForm::Recurrent, "recurrent"}, {Wkv7CudaForm::Chunked, "chunked"}}) {
    const auto actual = resultsOf(at::kBFloat16, form, wkv7Cuda);
    std::printf("bf16, N 64, T 1024, %s, error (rms / rms, max / max):", name);
    for (size_t i = 0; i < actual.size(); ++i) {
      const at::Tensor error = actual[i].detach().to(at::kDouble) - expected[i].detach();
      std::printf(" %s %.1e %.1e", names[i], (error.norm() / expected[i].norm()).item<double>(),
                  (error.abs().max() / expected[i].abs().max()).item<double>());
    }
    std::printf("\n");
  }
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
  for (uint64_t more : {1, 2, 3}) {
    at::manual_seed(seed + more);
    for (int64_t headSize : {32, 64}) emulatedChunked(checker, "emulated CUDA, chunked, N ", headSize);
  }
  formOfEnvironment(checker);
  at::manual_seed(seed);
  printErrors();
  splitEverywhere(checker);
  badInput(checker);
  return checker.finish("wkv7_check");
}

}  // namespace
}  // namespace aegir::kernels

int main() { return aegir::kernels::run(); }
