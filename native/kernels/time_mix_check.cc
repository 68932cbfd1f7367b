// Compares the time-mix kernels with the reference in float64: values and every gradient.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <functional>

#include "native/kernels/check_support.h"
#include "native/kernels/simd_level.h"
#include "native/kernels/time_mix.h"
#include "native/kernels/time_mix_cuda.h"

namespace aegir::kernels {
namespace {

using Tensors = std::vector<at::Tensor>;
using Operator = std::function<Tensors(const Tensors&)>;

// exp on vectors adds a few units in the last place to what ATen has.
double tolerance(at::ScalarType type) { return type == at::kDouble ? 1e-12 : 2e-5; }

Tensors leaves(const Tensors& source, at::ScalarType type) {
  Tensors result;
  for (const at::Tensor& x : source) result.push_back(x.detach().to(type).set_requires_grad(true));
  return result;
}

void compare(Checker& checker, const std::string& name, const Tensors& inputs, const Operator& kernel,
             const Operator& reference,
             std::initializer_list<at::ScalarType> types = {at::kDouble, at::kFloat}) {
  for (at::ScalarType type : types) {
    const std::string title = name + (type == at::kDouble ? " f64" : " f32");
    const Tensors rounded = leaves(inputs, type);
    const Tensors expectedInputs = leaves(rounded, at::kDouble), actualInputs = leaves(rounded, type);
    const Tensors expected = reference(expectedInputs), actual = kernel(actualInputs);
    Tensors weights;
    for (size_t i = 0; i < expected.size(); ++i) {
      checker.close(title + " result " + std::to_string(i), actual[i], expected[i], tolerance(type));
      weights.push_back(at::randn(expected[i].sizes(), at::kDouble).to(type).to(at::kDouble));
    }
    const Tensors expectedGrads = gradients(expected, weights, expectedInputs);
    const Tensors actualGrads = gradients(actual, weights, actualInputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      checker.close(title + " grad " + std::to_string(i), actualGrads[i], expectedGrads[i], tolerance(type));
    }
  }
}

at::Tensor random(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }

void shiftMix(Checker& checker) {
  const std::vector<std::vector<int64_t>> layouts{{0, 1}, {0, 0}, {0, 7, 7, 8, 20}};
  for (const auto& bounds : layouts) {
    const int64_t tokens = bounds.back(), sequences = static_cast<int64_t>(bounds.size()) - 1;
    for (const auto& [mixes, width] : {std::pair<int64_t, int64_t>{6, 32}, {1, 16}, {7, 16}, {2, 5}}) {
      for (bool carried : {true, false}) {
        const auto input = [&, carried = carried](const Tensors& x) {
          return TokenShiftMixInput{x[0], carried ? x[2] : at::Tensor(), x[1], at::tensor(bounds, at::kLong)};
        };
        Tensors inputs{random({tokens, width}), random({mixes, width})};
        if (carried) inputs.push_back(random({sequences, width}));
        const std::string name = "tokenShiftMix K " + std::to_string(tokens) + " C " + std::to_string(mixes) +
                                 " D " + std::to_string(width) + (carried ? " carried" : "");
        compare(
            checker, name, inputs, [&](const Tensors& x) { return tokenShiftMix(input(x)); },
            [&](const Tensors& x) { return reference::tokenShiftMix(input(x)); });
      }
    }
  }
}

void elementwise(Checker& checker) {
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{37, 48}, {0, 16}, {3, 7}, {1, 16}}) {
    const std::string size = " " + std::to_string(rows) + "x" + std::to_string(width);
    const at::Tensor z = random({rows, width}) * 6;
    compare(
        checker, "decayFromLogits" + size, {z},
        [](const Tensors& x) { return Tensors{decayFromLogits(x[0])}; },
        [](const Tensors& x) { return Tensors{reference::decayFromLogits(x[0])}; });
    compare(
        checker, "valueResidual" + size, {random({rows, width}), random({rows, width}), z},
        [](const Tensors& x) { return Tensors{valueResidual(x[0], x[1], x[2])}; },
        [](const Tensors& x) { return Tensors{reference::valueResidual(x[0], x[1], x[2])}; });
    compare(
        checker, "squaredRelu" + size, {z}, [](const Tensors& x) { return Tensors{squaredRelu(x[0])}; },
        [](const Tensors& x) { return Tensors{reference::squaredRelu(x[0])}; });
  }
  // Large logits reach the bounds and stay finite.
  const at::Tensor extreme =
      at::tensor({-1e4, -800.0, -100.0, -1.0, 0.0, 1.0, 100.0, 1e4}, at::kDouble).repeat({2}).view({1, 16});
  checker.close("decayFromLogits extreme", decayFromLogits(extreme.to(at::kFloat)),
                reference::decayFromLogits(extreme), 1e-6);
  const at::Tensor poisoned = at::full({1, 16}, NAN, at::kFloat);
  checker.close("decayFromLogits NaN", decayFromLogits(poisoned).isnan().to(at::kFloat), at::ones({1, 16}),
                0);
  checker.close("squaredRelu NaN", squaredRelu(poisoned).isnan().to(at::kFloat), at::ones({1, 16}), 0);
}

void overHeads(Checker& checker) {
  for (const auto& [rows, heads, headSize] :
       {std::tuple<int64_t, int64_t, int64_t>{19, 3, 32}, {5, 1, 64}, {0, 2, 16}, {4, 2, 6}}) {
    const int64_t width = heads * headSize;
    const std::string size =
        " K " + std::to_string(rows) + " H " + std::to_string(heads) + " N " + std::to_string(headSize);
    const auto x = [&, rows = rows] { return random({rows, width}); };
    at::Tensor k = x();
    if (rows > 1) k[1].zero_();  // a head of zeros has a clamped norm
    const auto key = [headSize = headSize](const Tensors& t) {
      return KeyNormaliseInput{t[0], t[1], t[2], t[3], headSize};
    };
    const auto list = [](const NormalisedKey& n) { return Tensors{n.key, n.removal, n.gated}; };
    compare(
        checker, "keyNormalise" + size, {x(), x(), random({width}), random({width})},
        [&](const Tensors& t) { return list(keyNormalise(key(t))); },
        [&](const Tensors& t) { return list(reference::keyNormalise(key(t))); });
    checker.close(
        "keyNormalise zeros" + size,
        keyNormalise({k, x(), random({width}), random({width}), headSize}).removal.isfinite().to(at::kFloat),
        at::ones({rows, width}), 0);
    const auto gate = [](const Tensors& t) {
      return GroupNormBonusGateInput{t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]};
    };
    compare(
        checker, "groupNormBonusGate" + size,
        {x(), x(), x(), x(), x(), random({heads, headSize}), random({width}), random({width})},
        [&](const Tensors& t) { return Tensors{groupNormBonusGate(gate(t))}; },
        [&](const Tensors& t) { return Tensors{reference::groupNormBonusGate(gate(t))}; });
  }
}

void emulatedShiftMix(Checker& checker) {
  for (const auto& bounds : std::vector<std::vector<int64_t>>{{0, 1}, {0, 0}, {0, 7, 7, 8, 150, 150}}) {
    const int64_t tokens = bounds.back(), sequences = static_cast<int64_t>(bounds.size()) - 1;
    for (bool carried : {true, false}) {
      const auto input = [&](const Tensors& x) {
        return TokenShiftMixInput{x[0], carried ? x[2] : at::Tensor(), x[1], at::tensor(bounds, at::kLong)};
      };
      Tensors inputs{random({tokens, 130}), random({carried ? 6 : 2, 130})};
      if (carried) inputs.push_back(random({sequences, 130}));
      compare(
          checker, "emulated CUDA tokenShiftMix K " + std::to_string(tokens), inputs,
          [&](const Tensors& x) { return tokenShiftMixCuda(input(x)); },
          [&](const Tensors& x) { return reference::tokenShiftMix(input(x)); }, {at::kFloat});
    }
  }
}

void emulatedOverHeads(Checker& checker) {
  for (const auto& [rows, heads, headSize] :
       {std::tuple<int64_t, int64_t, int64_t>{19, 3, 32}, {70, 2, 64}, {5, 1, 128}, {0, 2, 32}}) {
    const int64_t width = heads * headSize;
    const std::string size = " K " + std::to_string(rows) + " N " + std::to_string(headSize);
    const auto x = [&, rows = rows] { return random({rows, width}); };
    const auto key = [headSize = headSize](const Tensors& t) {
      return KeyNormaliseInput{t[0], t[1], t[2], t[3], headSize};
    };
    const auto list = [](const NormalisedKey& n) { return Tensors{n.key, n.removal, n.gated}; };
    compare(
        checker, "emulated CUDA keyNormalise" + size, {x(), x(), random({width}), random({width})},
        [&](const Tensors& t) { return list(keyNormaliseCuda(key(t))); },
        [&](const Tensors& t) { return list(reference::keyNormalise(key(t))); }, {at::kFloat});
    const auto gate = [](const Tensors& t) {
      return GroupNormBonusGateInput{t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]};
    };
    compare(
        checker, "emulated CUDA groupNormBonusGate" + size,
        {x(), x(), x(), x(), x(), random({heads, headSize}), random({width}), random({width})},
        [&](const Tensors& t) { return Tensors{groupNormBonusGateCuda(gate(t))}; },
        [&](const Tensors& t) { return Tensors{reference::groupNormBonusGate(gate(t))}; }, {at::kFloat});
  }
}

void emulatedElementwise(Checker& checker) {
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{37, 48}, {0, 16}, {3, 7}}) {
    const std::string size = " " + std::to_string(rows) + "x" + std::to_string(width);
    const at::Tensor z = random({rows, width}) * 6;
    compare(
        checker, "emulated CUDA decayFromLogits" + size, {z},
        [](const Tensors& x) { return Tensors{decayFromLogitsCuda(x[0])}; },
        [](const Tensors& x) { return Tensors{reference::decayFromLogits(x[0])}; }, {at::kFloat});
    compare(
        checker, "emulated CUDA valueResidual" + size, {random({rows, width}), random({rows, width}), z},
        [](const Tensors& x) { return Tensors{valueResidualCuda(x[0], x[1], x[2])}; },
        [](const Tensors& x) { return Tensors{reference::valueResidual(x[0], x[1], x[2])}; }, {at::kFloat});
    compare(
        checker, "emulated CUDA squaredRelu" + size, {z},
        [](const Tensors& x) { return Tensors{squaredReluCuda(x[0])}; },
        [](const Tensors& x) { return Tensors{reference::squaredRelu(x[0])}; }, {at::kFloat});
  }
  const at::Tensor poisoned = at::full({1, 16}, NAN, at::kFloat);
  checker.close("emulated CUDA squaredRelu NaN", squaredReluCuda(poisoned).isnan().to(at::kFloat),
                at::ones({1, 16}), 0);
}

int run() {
  openEmulatedCuda();
  Checker checker;
  const uint64_t seed = 20260103;
  at::manual_seed(seed);
  std::printf("simd %s, seed %llu\n", simdLevelName(simdLevel()), static_cast<unsigned long long>(seed));
  shiftMix(checker);
  elementwise(checker);
  overHeads(checker);
  emulatedShiftMix(checker);
  emulatedOverHeads(checker);
  emulatedElementwise(checker);
  return checker.finish("time_mix_check");
}

}  // namespace
}  // namespace aegir::kernels

int main() { return aegir::kernels::run(); }
