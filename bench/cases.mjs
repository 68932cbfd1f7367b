// The cases of `npm run bench`: an operator, its sizes, its random inputs, its arithmetic.

/** Operations an element of the state, WKV-7: 9 forward; backward 6 to recompute the states and 19 for the gradients. */
const WKV7_FORWARD = 9;
const WKV7_BOTH = 34;

/** Of the case that docs/performance.md is about. */
const WANTED = { wkv7: "forward 55 %, both 40 % of sgemm; both: step by step at 80x, chunks at 8x" };

function wkv7Case(name, [batch, tokens, heads, headSize], repeats) {
  const shape = [batch, tokens, heads, headSize];
  const elements = batch * tokens * heads * headSize * headSize;
  return {
    name,
    operator: "wkv7",
    title: `WKV-7, B=${batch} T=${tokens} H=${heads} N=${headSize}, float32`,
    inputs: ["r", "decay", "k", "v", "a", "b"],
    shape,
    outputShape: shape,
    repeats,
    wanted: WANTED[name],
    flops: { forward: WKV7_FORWARD * elements, both: WKV7_BOTH * elements },
    /** kk of unit length and decay in (0.54, 1), as the model makes them. */
    makeInputs(random, size = shape) {
      const [count, headSize] = [size.reduce((a, b) => a * b), size.at(-1)];
      const normal = () => Float32Array.from({ length: count }, random.normal);
      const sigmoid = (x) => 1 / (1 + Math.exp(-x));
      const kk = normal();
      for (let at = 0; at < count; at += headSize) {
        const head = kk.subarray(at, at + headSize);
        const norm = Math.hypot(...head);
        for (let i = 0; i < headSize; i++) head[i] /= norm;
      }
      return {
        r: normal(),
        decay: normal().map((z) => Math.exp(-Math.exp(-0.5) * sigmoid(z))),
        k: normal(),
        v: normal(),
        a: kk.map((x) => -x),
        b: kk.map((x) => x * sigmoid(random.normal())),
      };
    },
    shapes: () => Object.fromEntries(["r", "decay", "k", "v", "a", "b"].map((input) => [input, shape])),
  };
}

function emaCase(name, [batch, tokens, width], repeats) {
  const shape = [batch, tokens, width];
  return {
    name,
    operator: "emaScan",
    title: `EMA scan, B=${batch} M=${tokens} D=${width}, float32`,
    inputs: ["x", "p"],
    outputShape: shape,
    repeats,
    flops: null,
    makeInputs: (random) => ({
      x: Float32Array.from({ length: batch * tokens * width }, random.normal),
      p: Float32Array.from({ length: batch * tokens }, () => 0.01 + 0.98 * random.uniform()),
    }),
    shapes: () => ({ x: shape, p: [batch, tokens] }),
  };
}

export const cases = [
  wkv7Case("wkv7", [8, 256, 4, 64], 3),
  wkv7Case("wkv7-small", [64, 64, 2, 32], 3),
  emaCase("ema", [64, 64, 128], 5),
];
