// Answers of a linear specialist: its sparse features times its weights, against the same sums in a JavaScript loop.
import { seededRandom } from "./random.mjs";

/** A batch of columns, each with the n-grams of its own and of its table, and SOTAB's types. */
const sizes = { rows: 256, features: 100_000, values: 1500, classes: 82 };

function makeBatch() {
  const random = seededRandom(5);
  const { rows, features, values, classes } = sizes;
  const starts = Int32Array.from({ length: rows + 1 }, (_, row) => row * values);
  const indices = new Int32Array(rows * values);
  for (let row = 0; row < rows; row++) {
    // Few n-grams are frequent, most are rare.
    const found = Int32Array.from({ length: values }, () => Math.floor(random.uniform() ** 2 * features));
    indices.set(found.sort(), row * values);
  }
  const real = (length) => Float32Array.from({ length }, random.normal);
  return {
    x: { columns: features, starts, indices, values: real(rows * values) },
    weight: real(features * classes),
  };
}

function plainLoop({ starts, indices, values }, weight, width, into) {
  for (let row = 0; row + 1 < starts.length; row++) {
    for (let k = starts[row]; k < starts[row + 1]; k++) {
      const [from, to, value] = [indices[k] * width, row * width, values[k]];
      for (let c = 0; c < width; c++) into[to + c] += value * weight[from + c];
    }
  }
  return into;
}

async function run({ addon, quick }) {
  const { rows, values, classes } = sizes;
  console.log(`\nSparse product, ${rows} columns of ${values} n-grams, ${classes} types`);
  const { x, weight } = makeBatch();
  const forms = { native: addon.sparseProduct, loop: plainLoop };
  const best = {};
  const results = {};
  for (let i = 0; i < (quick ? 3 : 10); i++) {
    for (const [name, product] of Object.entries(forms)) {
      const into = new Float64Array(rows * classes);
      const start = performance.now();
      results[name] = product(x, weight, classes, into);
      best[name] = Math.min(best[name] ?? Infinity, (performance.now() - start) / 1000);
    }
  }
  if (results.native.some((value, i) => value !== results.loop[i])) {
    console.log("  no figures: results differ");
    return null;
  }
  const nanoseconds = (seconds) => ((1e9 * seconds) / (rows * values)).toFixed(0);
  for (const [name, title] of [
    ["native", "aegir-swarm"],
    ["loop", "JavaScript loop"],
  ]) {
    const ratio = (best[name] / best.native).toFixed(1);
    console.log(
      `  ${title.padEnd(24)} ${(1e3 * best[name]).toFixed(1)} ms, ${nanoseconds(best[name])} ns a value   ${ratio}x`,
    );
  }
  return { case: "sparse", title: "Sparse product", seconds: best };
}

export const sparseCases = [{ name: "sparse", run }];
