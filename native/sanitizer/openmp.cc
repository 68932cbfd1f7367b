// Part of the checks that npm run test:tsan builds. The thread sanitizer does not see the barriers of an
// OpenMP runtime that is not instrumented: here it is told that what comes before a parallel region comes
// before its threads' work, and that work before what follows. Takes the place of libgomp's entry point.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

namespace {

struct Region {
  void (*work)(void*);
  void* data;
  char begun = 0, ended = 0;  // by address: one for both would order the threads' work
};

void runRegion(void* given) {
  auto& region = *static_cast<Region*>(given);
  __tsan_acquire(&region.begun);
  region.work(region.data);
  __tsan_release(&region.ended);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void GOMP_parallel(void (*work)(void*), void* data,
                                                                     unsigned threads, unsigned flags) {
  using Parallel = void(void (*)(void*), void*, unsigned, unsigned);
  static const auto parallel = reinterpret_cast<Parallel*>(dlsym(RTLD_NEXT, "GOMP_parallel"));
  Region region{work, data};
  __tsan_release(&region.begun);
  parallel(runRegion, &region, threads, flags);
  __tsan_acquire(&region.ended);
}
