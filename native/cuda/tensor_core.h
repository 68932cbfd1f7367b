// Products of 16x16 blocks on the tensor cores: factors in bf16, sums in f32, by the 32 lanes of a warp
// together. Where each element lies among the lanes follows the PTX ISA (mma.m16n8k16, ldmatrix). With
//   g = lane / 4,  q = 2 (lane % 4)
// a lane holds, two neighbours at a time, the first in the lower half of a word:
//   Sums      x[h][0..1]: row g, columns 8h + q..;  x[h][2..3]: row g + 8
//   Left      rows g, g + 8 of columns q..; then rows g, g + 8 of columns 8 + q..
//   Right     rows q.., 8 + q.. of column g; then of column g + 8
// so sums, rounded, are a left factor, and a left factor with its middle words exchanged is the right factor
// of its transpose: products follow one another without leaving the registers.
#pragma once

#include "native/cuda/device_code.h"

namespace aegir::cuda {

constexpr int blockSize = 16;

struct Sums {
  float x[2][4] = {};
};
struct Left {
  uint32_t x[4];
};
struct Right {
  uint32_t x[4];
};

// Place of a lane's first element; the others of a Sums lie rowOf, columnOf further.
__device__ inline int laneRow() { return threadIdx.x % 32 / 4; }
__device__ inline int laneColumn() { return threadIdx.x % 4 * 2; }
__device__ inline int rowOf(int i) { return laneRow() + (i / 2) * 8; }
__device__ inline int columnOf(int h, int i) { return 8 * h + laneColumn() + i % 2; }

// Two values in a word, rounded to the nearest.
__device__ inline uint32_t pack(float first, float second) {
#ifdef AEGIR_CUDA_EMULATION
  return __float2bfloat16(first).bits | uint32_t{__float2bfloat16(second).bits} << 16;
#else
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
#endif
}
__device__ inline float2 unpack(uint32_t word) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}

// A matrix in shared memory. Eight more columns: the rows of an 8x8 part then lie in different banks.
template <int Rows, int Columns>
struct Matrix {
  static constexpr int stride = Columns + 8;
  __align__(16) __nv_bfloat16 x[Rows * stride];

  __device__ const __nv_bfloat16* at(int row, int column) const { return x + row * stride + column; }
  // Two neighbours, the first in an even column.
  __device__ uint32_t& word(int row, int column) {
    return *reinterpret_cast<uint32_t*>(x + row * stride + column);
  }
  __device__ float2 pair(int row, int column) const {
    return unpack(*reinterpret_cast<const uint32_t*>(at(row, column)));
  }
};

// Four 8x8 parts of 16-bit values; lane 8 i + r names row r of part i. A lane gets from each part elements q,
// q + 1 of row g or, transposed, of column g.
template <bool transposed>
__device__ void loadParts(uint32_t (&to)[4], const __nv_bfloat16* row) {
#ifdef AEGIR_CUDA_EMULATION
  const __nv_bfloat16* const* rows = emulatedLanes(row);
  const int g = laneRow(), q = laneColumn();
  for (int i = 0; i < 4; ++i) {
    const auto bits = [&](int e) {
      return uint32_t{transposed ? rows[8 * i + q + e][g].bits : rows[8 * i + g][q + e].bits};
    };
    to[i] = bits(0) | bits(1) << 16;
  }
#else
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
#endif
}

// Parts down the first eight columns, then down the others; or along the first eight rows, then the others.
template <int Rows, int Columns>
__device__ const __nv_bfloat16* downwards(const Matrix<Rows, Columns>& m, int row, int column) {
  const int lane = threadIdx.x % 32;
  return m.at(row + lane % 16, column + lane / 16 * 8);
}
template <int Rows, int Columns>
__device__ const __nv_bfloat16* alongside(const Matrix<Rows, Columns>& m, int row, int column) {
  const int lane = threadIdx.x % 32;
  return m.at(row + lane / 16 * 8 + lane % 8, column + lane / 8 % 2 * 8);
}

// The block of m whose first element is (row, column), or its transpose, as a factor.
template <int Rows, int Columns>
__device__ Left left(const Matrix<Rows, Columns>& m, int row, int column) {
  Left factor;
  loadParts<false>(factor.x, downwards(m, row, column));
  return factor;
}
template <int Rows, int Columns>
__device__ Left leftTransposed(const Matrix<Rows, Columns>& m, int row, int column) {
  Left factor;
  loadParts<true>(factor.x, alongside(m, row, column));
  return factor;
}
template <int Rows, int Columns>
__device__ Right right(const Matrix<Rows, Columns>& m, int row, int column) {
  Right factor;
  loadParts<true>(factor.x, downwards(m, row, column));
  return factor;
}
template <int Rows, int Columns>
__device__ Right rightTransposed(const Matrix<Rows, Columns>& m, int row, int column) {
  Right factor;
  loadParts<false>(factor.x, alongside(m, row, column));
  return factor;
}

__device__ inline Left rounded(const Sums& sums) {
  return {{pack(sums.x[0][0], sums.x[0][1]), pack(sums.x[0][2], sums.x[0][3]),
           pack(sums.x[1][0], sums.x[1][1]), pack(sums.x[1][2], sums.x[1][3])}};
}
__device__ inline Right transpose(const Left& factor) {
  return {{factor.x[0], factor.x[2], factor.x[1], factor.x[3]}};
}

// d (16,8) += a (16,16) b (16,8)
__device__ inline void multiplyHalf(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#ifdef AEGIR_CUDA_EMULATION
  struct Held {
    uint32_t a[4], b[2];
  };
  const Held own{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const Held* lanes = emulatedLanes(own);
  const auto half = [](uint32_t word, int second) { return second ? unpack(word).y : unpack(word).x; };
  for (int i = 0; i < 4; ++i) {
    const int row = rowOf(i), column = laneColumn() + i % 2;
    for (int k = 0; k < blockSize; ++k) {
      const int word = k / 8, lane = k % 8 / 2;
      d[i] += half(lanes[row % 8 * 4 + lane].a[2 * word + row / 8], k % 2) *
              half(lanes[column * 4 + lane].b[word], k % 2);
    }
  }
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

__device__ inline void addProduct(Sums& sums, const Left& a, const Right& b) {
  multiplyHalf(sums.x[0], a.x, b.x[0], b.x[1]);
  multiplyHalf(sums.x[1], a.x, b.x[2], b.x[3]);
}

// Rounds sums into the block of m at (row, column).
template <int Rows, int Columns>
__device__ void put(Matrix<Rows, Columns>& m, int row, int column, const Sums& sums) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      m.word(row + rowOf(i), column + columnOf(h, 0)) = pack(sums.x[h][i], sums.x[h][i + 1]);
    }
  }
}

}  // namespace aegir::cuda
