// Forwards of a frozen flat annotation model as CUDA graphs, one per bucket of shapes: what takes hundreds of
// launches is one. A batch becomes one packed row, filled up to its bucket's size with sequences that nothing
// reads.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "native/model/heads.h"

namespace aegir::model {

struct GraphReport {
  int64_t captures = 0, replays = 0, eager = 0;
  std::string reason;  // why the last eager forward was one; empty: none was
};

class GraphedForward {
 public:
  explicit GraphedForward(std::shared_ptr<Model> model);
  ~GraphedForward();

  // As model.forward(input), within rounding, without a graph of gradients. Eager where the input is none for
  // a graph (a state, dropout, tensors on the device), where its shape comes for the first time, and where
  // capturing fails: for good then. Graphs belong to the thread, and so to the stream, that captured them.
  ModelOutput forward(const ModelInput& input);
  GraphReport report() const;

 private:
  struct Shape {
    int64_t rows, tokens;
    bool roles, poolMask;
    std::thread::id thread;
    bool operator==(const Shape&) const = default;
  };
  struct Captured;

  ModelOutput eager(const ModelInput& input, std::string reason);
  // Empty where `input` can be a graph's.
  std::string refusal(const ModelInput& input) const;
  Captured* find(const Shape& shape);
  ModelOutput replay(Captured& captured, const ModelInput& padded, int64_t rows);
  // Graphs read the parameters where they lay when they were captured.
  void forgetMoved();

  const std::shared_ptr<Model> model_;
  mutable std::mutex mutex_;
  GraphReport report_;
  bool failed_ = false;
  const void* weights_ = nullptr;
  std::list<Shape> seen_;                          // latest first
  std::list<std::unique_ptr<Captured>> captured_;  // latest used first
};

// The sizes of a bucket: at most an eighth more than n.
int64_t bucketSize(int64_t n);

// `input` (on the CPU, without a state) as one packed row of a bucket's size: its sequences first, then
// others of token 0.
ModelInput paddedToBucket(const ModelInput& input);

}  // namespace aegir::model
