// The plain layers: a weight with a name, and the function that applies it.
#pragma once

#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <torch/nn/module.h>

#include "native/kernels/matmul.h"
#include "native/model/init.h"

namespace aegir::model {

class Linear : public torch::nn::Module {
 public:
  // weight (out, in), bias (out) or undefined
  explicit Linear(const at::Tensor& weight, const at::Tensor& bias = {}) {
    weight_ = register_parameter("weight", weight);
    if (bias.defined()) bias_ = register_parameter("bias", bias);
  }
  at::Tensor forward(const at::Tensor& x) const { return kernels::linear(x, weight_, bias_); }
  // residual + W x in one pass over the output; without a bias
  at::Tensor addTo(const at::Tensor& residual, const at::Tensor& x) const {
    return kernels::linear(x, weight_, residual);
  }

 private:
  at::Tensor weight_, bias_;
};

class Embedding : public torch::nn::Module {
 public:
  explicit Embedding(const at::Tensor& weight) { weight_ = register_parameter("weight", weight); }
  at::Tensor forward(const at::Tensor& ids) const { return at::embedding(weight_, ids); }
  int64_t size() const { return weight_.size(0); }
  at::Device device() const { return weight_.device(); }

 private:
  at::Tensor weight_;
};

// LayerNorm over the last dimension.
class Norm : public torch::nn::Module {
 public:
  Norm(const InitContext& context, int64_t width) {
    gain_ = register_parameter("gain", constant(context, {width}, 1));
    bias_ = register_parameter("bias", constant(context, {width}, 0));
  }
  at::Tensor forward(const at::Tensor& x) const { return at::layer_norm(x, {x.size(-1)}, gain_, bias_); }
  const at::Tensor& gain() const { return gain_; }
  const at::Tensor& bias() const { return bias_; }

 private:
  at::Tensor gain_, bias_;
};

}  // namespace aegir::model
