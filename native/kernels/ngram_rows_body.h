// The kernels of one instruction set; a file `ngram_rows_<isa>.cc` defines AEGIR_ISA and
// AEGIR_NGRAM_ROWS_TABLE and includes this.
#pragma once

#include "native/kernels/ngram_mix.h"
#include "native/kernels/ngram_rows_kernel.h"
#include "native/kernels/simd.h"

namespace aegir::kernels::AEGIR_ISA {

using Whole = Vector<int64_t>;

AEGIR_INLINE Whole between(Whole id, int64_t first, int64_t last) { return (id >= first) & (id <= last); }

// lowercase() and shapeOf() of ngram_hash.h.
template <Letters letters>
AEGIR_INLINE Whole letterOf(Whole id) {
  if constexpr (letters == Letters::Lowercase) return id + (between(id, 'A', 'Z') & ('a' - 'A'));
  if constexpr (letters == Letters::Shapes) {
    id = between(id, '0', '9') ? broadcast<int64_t>('9') : id;
    id = between(id, 'A', 'Z') ? broadcast<int64_t>('A') : id;
    id = between(id, 'a', 'z') ? broadcast<int64_t>('a') : id;
    id = between(id, 128, 255) ? broadcast<int64_t>(128) : id;
  }
  return id;
}

template <Letters letters>
AEGIR_INLINE int64_t nameRows(const NgramRun& run) {
  using Bits = Vector<uint64_t>;
  constexpr int64_t lane = lanes<int64_t>;
  const bool powerOfTwo = (run.buckets & (run.buckets - 1)) == 0;
  const auto width = static_cast<uint64_t>(run.width);
  int64_t token = 0;
  for (; token + lane <= run.tokens; token += lane) {
    Bits hash = {};
    uint64_t power = 1;
    for (int64_t j = 0, read = 0; j < run.count; ++j) {
      for (; read < run.sizes[j]; ++read, power *= ngramHashBase)
        hash += (reinterpret_cast<Bits>(letterOf<letters>(load(run.ids + token - read))) + 1) * power;
      const Bits mixed = mixBits(hash + (static_cast<uint64_t>(run.sizes[j]) + run.salt) * ngramHashBase);
      uint64_t bits[lane];
      store(bits, powerOfTwo ? mixed & (run.buckets - 1) : mixed);
      if (!powerOfTwo) {
        for (int64_t l = 0; l < lane; ++l) bits[l] %= run.buckets;
      }
      for (int64_t l = 0; l < lane; ++l)
        run.starts[(token + l) * run.stride + j] = static_cast<int64_t>(bits[l] * width);
    }
  }
  return token;
}

inline int64_t nameNgrams(const NgramRun& run) {
  switch (run.letters) {
    case Letters::AsTheyAre: return nameRows<Letters::AsTheyAre>(run);
    case Letters::Lowercase: return nameRows<Letters::Lowercase>(run);
    case Letters::Shapes: return nameRows<Letters::Shapes>(run);
  }
  return 0;
}

template <class Real>
AEGIR_INLINE void sumScalars(const NgramRows& rows, int64_t begin, int64_t end, int64_t i, const Real* table,
                             Real* sum) {
  for (; i < rows.width; ++i) {
    Real total = 0;
    for (int64_t e = begin; e < end; ++e) total += table[rows.starts[e] + i];
    sum[i] = total;
  }
}

// `vectors` vectors of a token's sum, from value i on: they stay in registers.
template <class Real, int64_t vectors>
AEGIR_INLINE void sumVectors(const NgramRows& rows, int64_t begin, int64_t end, int64_t i, const Real* table,
                             Real* sum) {
  Vector<Real> total[vectors] = {};
  for (int64_t e = begin; e < end; ++e) {
    const Real* row = table + rows.starts[e] + i;
    for (int64_t v = 0; v < vectors; ++v) total[v] += load(row + v * lanes<Real>);
  }
  for (int64_t v = 0; v < vectors; ++v) store(sum + i + v * lanes<Real>, total[v]);
}

template <class Real>
void sumRows(const NgramRows& rows, const Real* table, Real* sums) {
  constexpr int64_t lane = lanes<Real>;
  const int64_t width = rows.width, count = rows.tokens > 0 ? rows.ends[rows.tokens - 1] : 0;
  for (int64_t e = 0; e < ngramRowsAhead && e < count; ++e) prefetchRow(table + rows.starts[e], width);
  for (int64_t token = 0, begin = 0; token < rows.tokens; begin = rows.ends[token++]) {
    const int64_t end = rows.ends[token];
    for (int64_t e = begin + ngramRowsAhead; e < end + ngramRowsAhead && e < count; ++e)
      prefetchRow(table + rows.starts[e], width);
    Real* sum = sums + token * width;
    int64_t i = 0;
    for (; i + 6 * lane <= width; i += 6 * lane) sumVectors<Real, 6>(rows, begin, end, i, table, sum);
    for (; i + 3 * lane <= width; i += 3 * lane) sumVectors<Real, 3>(rows, begin, end, i, table, sum);
    for (; i + lane <= width; i += lane) sumVectors<Real, 1>(rows, begin, end, i, table, sum);
    sumScalars(rows, begin, end, i, table, sum);
  }
}

template <class Real>
void addToRows(const NgramRows& rows, const Real* given, int64_t first, int64_t last, Real* table) {
  const int64_t count = rows.tokens > 0 ? rows.ends[rows.tokens - 1] : 0;
  for (int64_t e = 0; e < ngramRowsAhead && e < count; ++e)
    prefetchRow(table + rows.starts[e] + first, last - first);
  for (int64_t token = 0, e = 0; token < rows.tokens; ++token) {
    const Real* from = given + token * rows.width;
    for (; e < rows.ends[token]; ++e) {
      if (e + ngramRowsAhead < count)
        prefetchRow(table + rows.starts[e + ngramRowsAhead] + first, last - first);
      Real* row = table + rows.starts[e];
      int64_t i = first;
      for (; i + lanes<Real> <= last; i += lanes<Real>) store(row + i, load(row + i) + load(from + i));
      for (; i < last; ++i) row[i] += from[i];
    }
  }
}

}  // namespace aegir::kernels::AEGIR_ISA

namespace aegir::kernels {

const NgramRowsTable AEGIR_NGRAM_ROWS_TABLE = {AEGIR_ISA::nameNgrams,
                                               {AEGIR_ISA::sumRows<float>, AEGIR_ISA::addToRows<float>},
                                               {AEGIR_ISA::sumRows<double>, AEGIR_ISA::addToRows<double>}};

}  // namespace aegir::kernels
