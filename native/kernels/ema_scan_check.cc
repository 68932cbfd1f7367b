// Compares the EMA scan with its reference in float64: values, every gradient, ragged, packed and strided
// inputs.
#include <ATen/ops/cat.h>

#include "native/kernels/check_support.h"
#include "native/kernels/ema_scan.h"
#include "native/kernels/sequence_layout.h"

namespace aegir::kernels {
namespace {

struct Case {
  std::string name;
  int64_t batch, tokens, width;
  at::ScalarType type;
  bool initial = true;
  std::vector<int64_t> lengths = {};
  std::vector<int64_t> cuSeqlens = {};
  bool strided = false;
};

double tolerance(at::ScalarType type) {
  return type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-5 : 2e-2;  // bf16 rounds results to 8 bits
}

at::Tensor indexTensor(const std::vector<int64_t>& values) {
  return values.empty() ? at::Tensor() : at::tensor(values, at::kLong);
}

EmaScanInput randomInput(const Case& c) {
  const at::Tensor x = c.strided
                           ? at::randn({c.tokens, 2 * c.width, c.batch}).permute({2, 0, 1}).slice(2, 0, {}, 2)
                           : at::randn({c.batch, c.tokens, c.width});
  const int64_t sequences = c.cuSeqlens.empty() ? c.batch : static_cast<int64_t>(c.cuSeqlens.size()) - 1;
  return {x.to(at::kDouble), at::randn({c.batch, c.tokens}, at::kDouble).sigmoid(),
          c.initial ? at::randn({sequences, c.width}, at::kDouble) : at::Tensor(), indexTensor(c.lengths),
          indexTensor(c.cuSeqlens)};
}

// Leaves in the given dtypes; NaN at padded positions of x and p.
EmaScanInput leaves(const EmaScanInput& source, at::ScalarType type, bool poison) {
  EmaScanInput input = source;
  const at::Tensor padding = validPositions(source.x.size(0), source.x.size(1), source.lengths).logical_not();
  input.x = source.x.detach().to(type);
  input.p = source.p.detach().to(type);
  if (poison) {
    input.x = input.x.masked_fill(padding.unsqueeze(-1), NAN);
    input.p = input.p.masked_fill(padding, NAN);
  }
  input.x.set_requires_grad(true);
  input.p.set_requires_grad(true);
  if (source.initial.defined()) input.initial = source.initial.detach().to(type).set_requires_grad(true);
  return input;
}

std::vector<at::Tensor> floating(const EmaScanInput& input) {
  std::vector<at::Tensor> all{input.x, input.p};
  if (input.initial.defined()) all.push_back(input.initial);
  return all;
}

using Operator = std::tuple<at::Tensor, at::Tensor> (*)(const EmaScanInput&);

void compare(Checker& checker, const Case& c, Operator run = emaScan) {
  const EmaScanInput source = leaves(randomInput(c), c.type, false);
  const EmaScanInput expected = leaves(source, at::kDouble, false), actual = leaves(source, c.type, true);
  const auto [output, final] = emaScanReference(expected);
  const auto [kernelOutput, kernelFinal] = run(actual);
  checker.close(c.name + " output", kernelOutput, output, tolerance(c.type));
  checker.close(c.name + " final", kernelFinal, final, tolerance(c.type));
  const std::vector<at::Tensor> weights{at::randn(output.sizes()).to(c.type).to(at::kDouble),
                                        at::randn(final.sizes(), at::kDouble)};
  const auto expectedGrads = gradients({output, final}, weights, floating(expected));
  const auto actualGrads = gradients({kernelOutput, kernelFinal}, weights, floating(actual));
  const char* names[] = {"x", "p", "initial"};
  for (size_t i = 0; i < actualGrads.size(); ++i) {
    checker.close(c.name + " grad " + names[i], actualGrads[i], expectedGrads[i], tolerance(c.type));
  }
}

void splitEverywhere(Checker& checker) {
  const EmaScanInput whole = randomInput({"split", 2, 17, 5, at::kDouble, false});
  const auto [output, final] = emaScan(whole);
  for (int64_t at = 1; at <= 17; ++at) {
    const auto [head, middle] = emaScan({whole.x.slice(1, 0, at), whole.p.slice(1, 0, at), {}, {}, {}});
    const auto [tail, last] = emaScan({whole.x.slice(1, at), whole.p.slice(1, at), middle, {}, {}});
    const std::string name = "split at " + std::to_string(at);
    checker.close(name + " output", at::cat({head, tail}, 1), output, 1e-14);
    checker.close(name + " final", last, final, 1e-14);
  }
}

void badInput(Checker& checker) {
  const EmaScanInput good = randomInput({"bad", 2, 3, 4, at::kDouble});
  const auto refuses = [&](ErrorCode code, const std::string& named, auto&& spoil) {
    EmaScanInput input = good;
    spoil(input);
    checker.throws("bad " + named, code, "emaScan " + named, [&] { emaScan(input); });
  };
  refuses(ErrorCode::Shape, "x", [](EmaScanInput& i) { i.x = i.x[0]; });
  refuses(ErrorCode::Dtype, "x", [](EmaScanInput& i) { i.x = i.x.to(at::kLong); });
  refuses(ErrorCode::Shape, "p", [](EmaScanInput& i) { i.p = i.p.slice(1, 1); });
  refuses(ErrorCode::Dtype, "p", [](EmaScanInput& i) { i.p = i.p.to(at::kBFloat16); });
  refuses(ErrorCode::Shape, "initial", [](EmaScanInput& i) { i.initial = i.initial.slice(0, 1); });
}

// The CUDA kernels on the CPU.
void emulated(Checker& checker, const std::string& prefix, at::ScalarType type) {
  const auto check = [&](const Case& c) { compare(checker, c, emaScanCuda); };
  for (int64_t tokens : {0, 1, 19}) {
    for (bool initial : {true, false}) {
      check({prefix + "T " + std::to_string(tokens) + (initial ? " initial" : ""), 3, tokens, 7, type,
             initial});
    }
  }
  check({prefix + "B 0", 0, 5, 4, type});
  check({prefix + "D 0", 2, 5, 0, type});
  for (bool initial : {true, false}) {
    check({prefix + "ragged", 5, 20, 33, type, initial, {20, 0, 1, 16, 3}});
    check({prefix + "packed", 1, 30, 160, type, initial, {}, {0, 17, 17, 18, 30}});
  }
  check({prefix + "strided", 3, 9, 6, type, true, {9, 4, 8}, {}, true});
}

int run() {
  openEmulatedCuda();
  Checker checker;
  const uint64_t seed = 20260102;
  at::manual_seed(seed);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const auto& [type, name] :
       {std::pair{at::kDouble, "f64 "}, {at::kFloat, "f32 "}, {at::kBFloat16, "bf16 "}}) {
    const std::string prefix = name;
    for (int64_t tokens : {0, 1, 2, 19}) {
      for (bool initial : {true, false}) {
        compare(checker, {prefix + "T " + std::to_string(tokens) + (initial ? " initial" : ""), 3, tokens, 7,
                          type, initial});
      }
    }
    compare(checker, {prefix + "B 0", 0, 5, 4, type});
    compare(checker, {prefix + "D 0", 2, 5, 0, type});
    for (bool initial : {true, false}) {
      compare(checker, {prefix + "ragged", 5, 20, 33, type, initial, {20, 0, 1, 16, 3}});
      compare(checker, {prefix + "packed", 1, 30, 16, type, initial, {}, {0, 17, 17, 18, 30}});
    }
    compare(checker, {prefix + "strided", 3, 9, 6, type, true, {9, 4, 8}, {}, true});
  }
  emulated(checker, "emulated CUDA f32 ", at::kFloat);
  emulated(checker, "emulated CUDA bf16 ", at::kBFloat16);
  splitEverywhere(checker);
  badInput(checker);
  return checker.finish("ema_scan_check");
}

}  // namespace
}  // namespace aegir::kernels

int main() { return aegir::kernels::run(); }
