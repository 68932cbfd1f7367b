#include "native/core/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "native/core/system_memory.h"

namespace aegir {
namespace {

constexpr size_t kAlignment = 64;
// In front of each block, its class: as wide as the alignment, which the data keeps.
constexpr size_t kHeaderBytes = kAlignment;
// Blocks from here on are mapped, so that releasing them gives the memory back whatever lies around them.
constexpr size_t kMappedFrom = size_t{256} << 10;
// Blocks from here on lie in large pages where the system grants them: a pass over a tensor then needs one
// translation of an address in place of 512, which in a virtual machine are two walks each, and one fault in
// place of 512 when it is fresh.
constexpr size_t kLargePage = size_t{2} << 20;
// Mapped blocks smaller than a large page lie side by side in chunks of this size: weights of a layer, which
// are read one after another, then share large pages too.
constexpr size_t kChunk = size_t{8} << 20;
// Systems that overcommit grant what they do not have and end the process that writes to it: for blocks from
// here on they are asked what they have first.
constexpr size_t kAskedFrom = size_t{64} << 20;
// Eight classes an octave: a block is at most an eighth larger than asked for.
constexpr size_t kClassesPerOctave = 8;
constexpr size_t kFirstOctave = 9;  // up to 512 bytes the classes are 64 bytes apart
// A mapped block may serve for one that is up to as many classes smaller: tensors of ragged batches have a
// size of their own every time, and a fresh block is cleared page by page before it is written.
constexpr size_t kClassesAbove = 3;
constexpr size_t kLargestOctave = 47;
constexpr size_t kNumClasses = kClassesPerOctave * (kLargestOctave - kFirstOctave + 2);

size_t classOf(size_t bytes) {
  if (bytes <= (size_t{1} << kFirstOctave)) return (bytes + kAlignment - 1) / kAlignment - 1;
  const size_t octave = std::bit_width(bytes - 1) - 1;  // bytes in (2^octave, 2^(octave + 1)]
  const size_t step = (size_t{1} << octave) / kClassesPerOctave;
  const size_t within = (bytes - (size_t{1} << octave) + step - 1) / step;  // 1 … 8
  return kClassesPerOctave * (octave - kFirstOctave + 1) + within - 1;
}

size_t classBytes(size_t index) {
  if (index < kClassesPerOctave) return (index + 1) * kAlignment;
  const size_t octave = index / kClassesPerOctave - 1 + kFirstOctave;
  const size_t within = index % kClassesPerOctave + 1;
  return (size_t{1} << octave) + within * ((size_t{1} << octave) / kClassesPerOctave);
}

// What the system is asked for: whole pages where the block is mapped.
size_t systemBytes(size_t index) {
  const size_t bytes = classBytes(index) + kHeaderBytes;
  if (bytes < kMappedFrom) return bytes;
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

std::byte* mapped(size_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED ? nullptr : static_cast<std::byte*>(block);
}

// Begins at a large page: what was mapped before and behind it to find one is given back.
void* mappedInLargePages(size_t bytes) {
  std::byte* const from = mapped(bytes + kLargePage);
  if (!from) return nullptr;
  const size_t before = -reinterpret_cast<uintptr_t>(from) % kLargePage;
  if (before > 0) munmap(from, before);
  if (before < kLargePage) munmap(from + before + bytes, kLargePage - before);
#ifdef MADV_HUGEPAGE
  madvise(from + before, bytes, MADV_HUGEPAGE);
#endif
  return from + before;
}

// The next block of a chunk; what is left of one that is too short is given back. Any part of a mapping can
// be given back by itself, so blocks are released as if each were a mapping of its own.
void* mappedInChunk(size_t bytes) {
  static std::mutex mutex;
  static std::byte* next = nullptr;
  static size_t left = 0;
  std::lock_guard<std::mutex> lock(mutex);
  if (left < bytes) {
    if (left > 0) munmap(next, left);
    next = static_cast<std::byte*>(mappedInLargePages(kChunk));
    left = next ? kChunk : 0;
    if (!next) return mapped(bytes);
  }
  left -= bytes;
  return std::exchange(next, next + bytes);
}

void* systemAllocate(size_t bytes) {
  if (bytes < kMappedFrom) return std::aligned_alloc(kAlignment, bytes);
  return bytes < kLargePage ? mappedInChunk(bytes) : mappedInLargePages(bytes);
}

void systemFree(void* block, size_t bytes) {
  if (bytes < kMappedFrom) {
    std::free(block);
  } else if (munmap(block, bytes) != 0) {
    // A hole in a mapping makes two of it, of which a process may have so many: the addresses stay, without
    // the memory.
    madvise(block, bytes, MADV_DONTNEED);
  }
}

// A quarter of the process's memory, at most 2 GiB.
int64_t cacheLimit() { return std::min(int64_t{2} << 30, memoryLimit() / 4); }

struct SizeClass {
  std::mutex mutex;
  std::vector<void*> blocks;
  std::atomic<uint64_t> lastUse{0};
};

class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }

  AllocatorStats stats() const {
    return {reserved_.load(), cached_.load(), hits_.load(std::memory_order_relaxed),
            misses_.load(std::memory_order_relaxed)};
  }
  // Gives cached blocks back, longest unused classes first, until at most `limit` bytes are cached.
  void trim(int64_t limit);

 private:
  static void release(void* data);
  // A block of this class or, where that has none, of one little above; null where there is none.
  void* takeCached(size_t index);
  void* takeFromClass(size_t index);
  void* takeFresh(size_t index);
  // Null where the system has no such block, or grants it without having the memory.
  void* trySystem(size_t bytes);
  void keep(void* block, size_t index);
  void freeClass(SizeClass& sizeClass, size_t index, int64_t limit);

  std::array<SizeClass, kNumClasses> classes_;
  std::atomic<uint64_t> clock_{0};
  std::atomic<int64_t> reserved_{0};
  std::atomic<int64_t> cached_{0};
  std::atomic<int64_t> hits_{0};
  std::atomic<int64_t> misses_{0};
  const int64_t cacheLimit_ = cacheLimit();
  std::mutex trimMutex_;
};

// Never destroyed: tensors may outlive every static of this library.
CachingAllocator& allocator() {
  static auto* instance = new CachingAllocator;
  return *instance;
}

c10::DataPtr CachingAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &release, cpu};
  TORCH_CHECK_WITH(OutOfMemoryError, bytes <= (size_t{1} << kLargestOctave), "cannot allocate ", bytes,
                   " bytes");
  const size_t index = classOf(bytes);
  void* block = takeCached(index);
  if (!block) block = takeFresh(index);
  void* data = static_cast<std::byte*>(block) + kHeaderBytes;
  return {data, data, &release, cpu};
}

void CachingAllocator::release(void* data) {
  if (!data) return;
  void* block = static_cast<std::byte*>(data) - kHeaderBytes;
  size_t index;
  std::memcpy(&index, block, sizeof index);
  allocator().keep(block, index);
}

void* CachingAllocator::takeCached(size_t index) {
  const size_t above = systemBytes(index) < kMappedFrom ? 0 : kClassesAbove;
  const size_t last = std::min(index + above, kNumClasses - 1);
  for (size_t at = index; at <= last; ++at) {
    if (void* block = takeFromClass(at)) return block;
  }
  return nullptr;
}

void* CachingAllocator::takeFromClass(size_t index) {
  SizeClass& sizeClass = classes_[index];
  std::lock_guard<std::mutex> lock(sizeClass.mutex);
  sizeClass.lastUse.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  if (sizeClass.blocks.empty()) return nullptr;
  void* block = sizeClass.blocks.back();
  sizeClass.blocks.pop_back();
  cached_.fetch_sub(static_cast<int64_t>(systemBytes(index)));
  hits_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void* CachingAllocator::takeFresh(size_t index) {
  const size_t bytes = systemBytes(index);
  void* block = trySystem(bytes);
  if (!block) {
    trim(0);
    block = trySystem(bytes);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, block, "cannot allocate ", classBytes(index), " bytes; ",
                   reserved_.load(), " bytes of tensors are in use");
  std::memcpy(block, &index, sizeof index);
  reserved_.fetch_add(static_cast<int64_t>(bytes));
  misses_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void* CachingAllocator::trySystem(size_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  if (reserved_.load() + wanted > memoryLimit()) return nullptr;
  if (bytes >= kAskedFrom && wanted > availableMemory()) return nullptr;
  return systemAllocate(bytes);
}

void CachingAllocator::keep(void* block, size_t index) {
  const auto bytes = static_cast<int64_t>(systemBytes(index));
  {
    SizeClass& sizeClass = classes_[index];
    std::lock_guard<std::mutex> lock(sizeClass.mutex);
    sizeClass.blocks.push_back(block);
    cached_.fetch_add(bytes);
  }
  if (cached_.load() > cacheLimit_) trim(cacheLimit_);
}

void CachingAllocator::trim(int64_t limit) {
  std::lock_guard<std::mutex> lock(trimMutex_);
  std::vector<size_t> order(kNumClasses);
  for (size_t i = 0; i < kNumClasses; ++i) order[i] = i;
  std::array<uint64_t, kNumClasses> lastUse;
  for (size_t i = 0; i < kNumClasses; ++i) lastUse[i] = classes_[i].lastUse.load(std::memory_order_relaxed);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lastUse[a] < lastUse[b]; });
  for (size_t index : order) {
    if (cached_.load() <= limit) return;
    freeClass(classes_[index], index, limit);
  }
}

void CachingAllocator::freeClass(SizeClass& sizeClass, size_t index, int64_t limit) {
  const size_t bytes = systemBytes(index);
  std::lock_guard<std::mutex> lock(sizeClass.mutex);
  while (!sizeClass.blocks.empty() && cached_.load() > limit) {
    systemFree(sizeClass.blocks.back(), bytes);
    sizeClass.blocks.pop_back();
    cached_.fetch_sub(static_cast<int64_t>(bytes));
    reserved_.fetch_sub(static_cast<int64_t>(bytes));
  }
}

}  // namespace

void installCachingAllocator() {
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(&allocator(), 1); });
}

AllocatorStats allocatorStats() { return allocator().stats(); }

void emptyAllocatorCache() { allocator().trim(0); }

}  // namespace aegir
