// The plain layers: a weight with a name, and the function that applies it.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <torch/nn/module.h>

#include "native/kernels/matmul.h"
#include "native/model/init.h"

namespace aegir::model {

// multiply(x, w, addend), which is kernels::product or kernels::linear, in the type `products`: with bf16 the
// factors and the product are rounded to it and all that lies between products, every parameter and its
// gradient keep x's type.
inline at::Tensor multiplied(at::Tensor (*multiply)(const at::Tensor&, const at::Tensor&, const at::Tensor&),
                             const at::Tensor& x, const at::Tensor& w, const at::Tensor& addend,
                             at::ScalarType products) {
  const auto type = x.scalar_type();
  if (products == type) return multiply(x, w, addend);
  // bf16 factors are summed in f32 whatever multiplies them, and CPUs are faster at f32 products.
  const auto work = x.is_cpu() ? type : products;
  const auto factor = [&](const at::Tensor& values) { return values.to(products).to(work); };
  const auto result = multiply(factor(x), factor(w), {}).to(products).to(type);
  return addend.defined() ? addend + result : result;
}

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
  // The same with the product in `products`.
  at::Tensor forward(const at::Tensor& x, at::ScalarType products) const {
    return multiplied(kernels::linear, x, weight_, bias_, products);
  }
  at::Tensor addTo(const at::Tensor& residual, const at::Tensor& x, at::ScalarType products) const {
    return multiplied(kernels::linear, x, weight_, residual, products);
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
