/** GFLOP/s of the addon's own 1024 x 1024 product, where Python cannot say. */
export function nativeSgemm(addon, generator) {
  const x = addon.Tensor.randn([1024, 1024], "f32", generator);
  let best = Infinity;
  for (let i = 0; i < 10; i++) {
    const start = performance.now();
    x.matmul(x).dispose();
    best = Math.min(best, performance.now() - start);
  }
  x.dispose();
  return (2 * 1024 ** 3) / best / 1e6;
}
