// Shared by the executables `<op>_check.cc`, which compare kernels with their references without Node.
#pragma once

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "native/core/error.h"
#include "native/cuda/loader.h"

namespace aegir::kernels {

class Checker {
 public:
  // Uninitialised memory is filled with NaN, so that an element that a kernel forgets to write shows.
  Checker() { at::globalContext().setDeterministicAlgorithms(true, true); }

  // |actual - expected| <= tolerance * max(1, max |expected|); NaN fails.
  void close(const std::string& what, const at::Tensor& actual, const at::Tensor& expected,
             double tolerance) {
    ++comparisons_;
    if (actual.sizes() != expected.sizes()) return report(what, "shapes differ");
    if (actual.numel() == 0) return;
    const at::Tensor wanted = expected.detach().to(at::kDouble);
    const double error = (actual.detach().to(at::kDouble) - wanted).abs().max().item<double>();
    const double scale = std::max(1.0, wanted.abs().max().item<double>());
    if (!(error <= tolerance * scale))
      report(what, "error " + std::to_string(error / scale) + " relative to the largest");
  }

  void check(const std::string& what, bool holds) {
    ++comparisons_;
    if (!holds) report(what, "does not hold");
  }

  template <class Call>
  void throws(const std::string& what, ErrorCode code, const std::string& named, const Call& call) {
    ++comparisons_;
    try {
      call();
    } catch (const Error& error) {
      if (error.code() == code && std::string(error.what()).find(named) != std::string::npos) return;
      return report(what, std::string("wrong error: ") + error.what());
    }
    report(what, "no error");
  }

  // The exit status of the executable.
  int finish(const char* name) const {
    std::printf("%s: %d comparisons, %d failed\n", name, comparisons_, failures_);
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void report(const std::string& what, const std::string& problem) {
    ++failures_;
    std::printf("FAILED %s: %s\n", what.c_str(), problem.c_str());
  }

  int comparisons_ = 0;
  int failures_ = 0;
};

// From here on the operators `<op>Cuda` run their kernels on CPU tensors (native/cuda/emulation).
inline void openEmulatedCuda() {
#ifdef AEGIR_EMULATED_CUDA
  setenv("AEGIR_CUDA_PLUGIN", AEGIR_EMULATED_CUDA, 1);
#endif
  cuda::openPlugin();
}

// Gradients of sum_i <results[i], weights[i]>; zeros for an input that the results do not depend on.
inline std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& results,
                                         const std::vector<at::Tensor>& weights,
                                         const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> used, usedWeights;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].requires_grad()) continue;
    used.push_back(results[i]);
    usedWeights.push_back(weights[i].to(results[i].scalar_type()));
  }
  std::vector<at::Tensor> result;
  if (!used.empty()) {
    result = torch::autograd::grad(used, inputs, usedWeights, /*retain_graph=*/false, /*create_graph=*/false,
                                   /*allow_unused=*/true);
  }
  result.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!result[i].defined()) result[i] = at::zeros_like(inputs[i]);
  }
  return result;
}

}  // namespace aegir::kernels
