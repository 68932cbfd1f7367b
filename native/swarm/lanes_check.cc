// Lanes at work side by side: memory that one thread takes and another gives back, cancelling and stopping
// while jobs are queued, models and generators that lanes share. What npm run test:tsan looks for races in.
// Exit code 1 where a law fails.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "native/core/allocator.h"
#include "native/core/error.h"
#include "native/core/lane.h"
#include "native/model/graphed_forward.h"
#include "native/model/sampling.h"
#include "native/optim/adamw.h"
#include "native/swarm/batched.h"

namespace aegir {
namespace {

std::atomic<int> failures{0};

void expect(bool ok, const char* what) {
  std::printf("%s %s\n", ok ? "ok  " : "FAIL", what);
  if (!ok) ++failures;
}

// How jobs ended, on whichever thread that was.
struct Outcomes {
  std::mutex mutex;
  std::condition_variable more;
  int64_t done = 0, aborted = 0, failed = 0;

  void count(int64_t Outcomes::*kind) {
    std::lock_guard<std::mutex> lock(mutex);
    ++(this->*kind);
    more.notify_all();
  }
  // Waits until `jobs` have ended.
  void wait(int64_t jobs) {
    std::unique_lock<std::mutex> lock(mutex);
    more.wait(lock, [&] { return done + aborted + failed >= jobs; });
  }
};

class Job final : public LaneJob {
 public:
  Job(Outcomes& outcomes, std::function<void()> work) : outcomes_(outcomes), work_(std::move(work)) {}
  void run() noexcept override {
    try {
      work_();
      ended_ = &Outcomes::done;
    } catch (const Error& error) {
      ended_ = error.code() == ErrorCode::Aborted ? &Outcomes::aborted : &Outcomes::failed;
    } catch (const std::exception& error) {
      std::printf("%s\n", error.what());
      ended_ = &Outcomes::failed;
    }
    work_ = nullptr;
  }
  void abandon() noexcept override {
    ended_ = &Outcomes::aborted;
    work_ = nullptr;
  }
  void deliver(std::unique_ptr<LaneJob>) noexcept override { outcomes_.count(ended_); }

 private:
  Outcomes& outcomes_;
  std::function<void()> work_;
  int64_t Outcomes::*ended_ = &Outcomes::failed;
};

using Lanes = std::vector<std::shared_ptr<Lane>>;

Lanes lanesOf(int count) {
  Lanes lanes;
  for (int i = 0; i < count; ++i) lanes.push_back(Lane::create("lane " + std::to_string(i), 1 + i % 2));
  return lanes;
}

void eachThread(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
}

void fill(const at::Tensor& tensor, int64_t value) {
  auto* data = tensor.mutable_data_ptr<int64_t>();
  std::fill(data, data + tensor.numel(), value);
}

bool filled(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<int64_t>();
  return std::all_of(data, data + tensor.numel(), [&](int64_t value) { return value == tensor.numel(); });
}

// Tensors of all kinds of blocks go round: each job checks and frees one that another thread made.
void memory() {
  constexpr int64_t rounds = 60, sizes[] = {1, 100, 3000, 40'000, 70'000, 300'000};
  Outcomes outcomes;
  std::mutex mutex;
  std::vector<at::Tensor> basket;
  const Lanes lanes = lanesOf(3);
  const auto next = [&](int64_t size) {
    at::Tensor made = at::empty({size}, at::kLong), old;
    fill(made, size);
    std::lock_guard<std::mutex> lock(mutex);
    if (basket.size() > 4) {
      old = std::move(basket.front());
      basket.erase(basket.begin());
    }
    basket.push_back(std::move(made));
    return old;
  };
  eachThread(2, [&](int thread) {
    for (int64_t i = 0; i < rounds; ++i) {
      lanes[static_cast<size_t>(i) % lanes.size()]->submit(
          std::make_unique<Job>(outcomes, [&next, size = sizes[(i + thread) % std::size(sizes)]] {
            const at::Tensor old = next(size);
            check(!old.defined() || filled(old), ErrorCode::Internal, "memory was written by two");
          }));
      if (i % 16 == 7) emptyAllocatorCache();
      if (allocatorStats().cachedBytes < 0) ++failures;
    }
  });
  outcomes.wait(2 * rounds);
  expect(outcomes.done == 2 * rounds, "memory belongs to one tensor at a time");
}

// Blocks that the cache does not have, taken by several threads at once.
void freshMemory() {
  std::atomic<bool> own{true};
  eachThread(3, [&](int thread) {
    for (int round = 0; round < 20; ++round) {
      std::vector<at::Tensor> held;
      for (int64_t i = 0; i < 10; ++i) {
        held.push_back(at::empty({40'000 + 30'000 * thread + i}, at::kLong));
        fill(held.back(), held.back().numel());
      }
      if (!std::all_of(held.begin(), held.end(), filled)) own = false;
      held.clear();
      emptyAllocatorCache();
    }
  });
  expect(own, "fresh memory belongs to one tensor");
}

// Jobs that end no sooner than their token is cancelled.
void cancelling() {
  constexpr int64_t jobs = 20;
  Outcomes outcomes;
  const Lanes lanes = lanesOf(2);
  eachThread(2, [&](int) {
    for (int64_t i = 0; i < jobs; ++i) {
      auto token = std::make_shared<CancelToken>();
      for (const auto& lane : lanes) {
        auto job = std::make_unique<Job>(outcomes, [] {
          for (;;) throwIfCancelled();
        });
        job->cancel = token;
        lane->submit(std::move(job));
      }
      if (i % 2 == 0) std::this_thread::yield();
      token->cancel();
    }
  });
  outcomes.wait(2 * jobs * 2);
  expect(outcomes.aborted == 2 * jobs * 2, "a cancelled job ends, queued or running");
  while (lanes[0]->pending() + lanes[1]->pending() > 0) std::this_thread::yield();
}

// Lanes that are closed or stopped while others queue jobs.
void stopping() {
  for (int round = 0; round < 12; ++round) {
    Outcomes outcomes;
    std::atomic<int64_t> queued{0};
    const auto lane = Lane::create("stopping", 1);
    const auto queue = [&] {
      try {
        for (int i = 0; i < 200; ++i) {
          lane->submit(std::make_unique<Job>(outcomes, throwIfCancelled));
          ++queued;
        }
      } catch (const Error& error) {
        check(error.code() == ErrorCode::Disposed, ErrorCode::Internal, error.what());
      }
    };
    const auto end = [&] {
      if (round % 3 == 0) return lane->close();
      if (round % 3 == 1) return lane->stop();
      std::unique_ptr<LaneJob> last = std::make_unique<Job>(outcomes, [] {});
      if (lane->closeAfter(last)) ++queued;
    };
    const auto watch = [&] {
      while (!lane->ended())
        if (lane->pending() < 0) ++failures;
    };
    eachThread(4, [&](int thread) { thread < 2 ? queue() : thread == 2 ? end() : watch(); });
    outcomes.wait(queued);
    lane->stop();
    if (!lane->ended() || lane->pending() != 0 || outcomes.done + outcomes.aborted != queued) ++failures;
  }
  expect(failures == 0, "every queued job is delivered once, however its lane ends");
}

std::shared_ptr<model::BackboneConfig> configOf(size_t stages, bool reversed) {
  auto config = std::make_shared<model::BackboneConfig>();
  config->vocabSize = 264;
  config->numRoles = 8;
  config->ngrams = {{{1, 3}, true, true}, 61, 8};
  for (size_t i = 0; i < stages; ++i) {
    model::StageConfig stage;
    stage.dModel = 32;
    stage.headSize = 16;
    stage.ranks = {8, 8, 8, 16};
    stage.encoder = {{false, 64}, {true, 64, reversed}};
    if (i + 1 < stages) {
      stage.decoder = {{false, 64}};
      stage.downsample = 3;
    }
    config->stages.push_back(stage);
  }
  return config;
}

model::InitContext contextOf(uint64_t seed) {
  return {model::InitScheme::Annotation, at::make_generator<at::CPUGeneratorImpl>(seed), at::kFloat};
}

std::shared_ptr<model::Model> annotation(size_t stages, bool reversed, uint64_t seed) {
  model::HeadConfig head;
  head.numLabels = 5;
  return std::make_shared<model::ColumnAnnotation>(contextOf(seed), configOf(stages, reversed), head);
}

model::ModelInput inputOf(uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  model::ModelInput input;
  input.inputIds = at::randint(0, 264, {6, 40}, generator, at::kLong);
  input.lengths = at::tensor(std::vector<int64_t>{40, 1, 13, 33, 7, 22});
  return input;
}

// A call on three lanes at once gives what it gives alone with as many threads.
void together(const char* what, const std::function<at::Tensor()>& call) {
  constexpr int jobs = 9, mostThreads = 3;
  std::array<at::Tensor, mostThreads> alone;
  for (int i = 0; i < mostThreads; ++i) {
    setIntraOpThreads(1 + i);
    alone[static_cast<size_t>(i)] = call();
  }
  Outcomes outcomes;
  std::atomic<bool> same{true};
  const Lanes lanes = lanesOf(3);
  for (int i = 0; i < jobs; ++i) {
    const at::Tensor& expected = alone[static_cast<size_t>(i % mostThreads)];
    auto job = std::make_unique<Job>(outcomes, [&] {
      if (!at::equal(call(), expected)) same = false;
    });
    job->threads = 1 + i % mostThreads;
    lanes[static_cast<size_t>(i / mostThreads)]->submit(std::move(job));
  }
  outcomes.wait(jobs);
  expect(same && outcomes.done == jobs, what);
}

void sharedModels() {
  c10::NoGradGuard noGrad;
  const auto input = inputOf(3);
  for (const auto& [stages, reversed] : {std::pair{1, true}, std::pair{2, false}}) {
    const auto model = annotation(static_cast<size_t>(stages), reversed, 5);
    together("forwards of a model", [&] { return model->forward(input).logits; });
  }
  const auto flat = annotation(1, false, 6);
  model::GraphedForward graphed(flat);
  together("graphed forwards of a model", [&] { return graphed.forward(input).logits; });
  const BatchedSpecialists batched({flat, annotation(1, false, 7)});
  together("batched specialists", [&] { return batched.forward({input, input})[1]->logits; });
  model::CausalLM decoder(contextOf(8), configOf(2, false));
  model::ModelInput text;
  text.inputIds = input.inputIds.narrow(0, 0, 1);
  together("decoding", [&] {
    const auto start = decoder.forward(text);
    auto state = start.state.copy();
    const model::GenerateInput wanted{start.logits[0][-1], 12, {}, {}, 0};
    return at::tensor(model::generate(decoder, wanted, state, contextOf(9).generator).ids);
  });
}

void sharedGenerator() {
  Outcomes outcomes;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(4);
  const Lanes lanes = lanesOf(3);
  const auto logits = at::tensor({0.1, 0.7, 0.2});
  for (int i = 0; i < 30; ++i) {
    lanes[static_cast<size_t>(i) % lanes.size()]->submit(std::make_unique<Job>(outcomes, [&] {
      at::Generator mine = generator;
      if (model::sampleToken(logits, {}, mine) > 2) ++failures;
      at::empty({20}).normal_(0, 1, mine);
    }));
  }
  outcomes.wait(30);
  expect(outcomes.done == 30, "lanes draw from one generator");
}

void training() {
  const auto input = inputOf(11);
  together("training steps side by side", [&] {
    c10::AutoGradMode grad(true);
    const auto model = annotation(2, false, 12);
    std::vector<optim::AdamWParameter> parameters;
    for (const auto& named : model->named_parameters())
      parameters.push_back({named.key(), named.value(), 1, 0.1, false});
    optim::AdamW optimizer(parameters, {});
    for (int step = 0; step < 2; ++step) {
      const auto output = model->forward(input);
      (output.logits.square().mean() + output.ratioLoss).backward();
      optimizer.step(1e-2, 1);
    }
    return model->forward(input).logits.detach();
  });
}

int run() {
  installCachingAllocator();
  memory();
  freshMemory();
  cancelling();
  stopping();
  sharedModels();
  sharedGenerator();
  training();
  std::printf("%d failures\n", failures.load());
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace aegir

int main() { return aegir::run(); }
