// Independent specialists side by side: the swarm's ways to run them against the best of one after the other with all threads and as
// many at once as there are processors with one thread each. Figures are printed where all forms give the same to 1e-6.
import os from "node:os";
import { seededRandom } from "./random.mjs";

const TOLERANCE = 1e-6;
const WANTED = 1.1;
/** Rounds of one form in a row, as it is used: what another form leaves behind (spinning threads, caches) is not its cost. */
const BLOCK = 4;
const counts = [1, 2, 4, 8];
const shapes = [
  { layers: 4, dModel: 128, headSize: 32, batch: 16, tokens: 64, rounds: 8 },
  { layers: 2, dModel: 64, headSize: 32, batch: 4, tokens: 24, rounds: 80 },
];

function inputsOf(addon, { batch, tokens }) {
  const random = seededRandom(11);
  const ids = Int32Array.from({ length: batch * tokens }, () => Math.floor(random.uniform() * 256));
  return { inputIds: addon.Tensor.fromData(ids, [batch, tokens], "i64") };
}

async function makeSwarm(index, { layers, dModel, headSize }, count, threads) {
  const { AegirForColumnAnnotation, FrozenSpecialist, SwarmOrchestrator } = index;
  const options = { archLayout: [`w${layers}`], dModel, headSize, numLabels: 8 };
  const specialists = Array.from({ length: count }, (_, i) => {
    const model = new AegirForColumnAnnotation(options, { seed: 10 + i, name: `specialist ${i}` });
    return new FrozenSpecialist(model, { id: `${i}` });
  });
  const primaryModel = new AegirForColumnAnnotation(options, { seed: 1, name: "primary" });
  const swarm = new SwarmOrchestrator({ primaryModel, specialists, threads });
  const dispose = () => {
    for (const each of [swarm, primaryModel, ...specialists.map(({ model }) => model)]) each.dispose();
  };
  return { swarm, specialists, dispose };
}

/** As many workers as threads, each taking the next specialist and running it with one thread. */
async function pool(specialists, inputs, threads) {
  const results = [];
  let next = 0;
  const worker = async () => {
    while (next < specialists.length) {
      const index = next++;
      results[index] = await specialists[index].forward(inputs, { threads: 1 });
    }
  };
  await Promise.all(Array.from({ length: threads }, worker));
  return results;
}

const valuesOf = (results) => results.map(({ output, states }) => [output.logits, states[0].at(-1)]);

function worstDifference(results, expected) {
  const others = valuesOf(expected);
  return Math.max(
    ...valuesOf(results).flatMap((tensors, i) => tensors.map((tensor, j) => tensor.maxAbsDiff(others[i][j]))),
  );
}

/** Median milliseconds of each form over interleaved blocks of rounds, and the largest difference from the first form's results. */
async function timed(forms, rounds) {
  const times = Object.fromEntries(Object.keys(forms).map((name) => [name, []]));
  let worst = 0;
  for (let counted = 0; counted < rounds; counted += BLOCK) {
    let expected = null;
    for (const [name, form] of Object.entries(forms)) {
      // Uncounted: threads of the form before may still spin beside it.
      let results = await form();
      for (let i = 0; i < BLOCK; i++) {
        for (const result of results) result.dispose();
        const start = performance.now();
        results = await form();
        times[name].push(performance.now() - start);
      }
      if (expected) worst = Math.max(worst, worstDifference(results, expected));
      if (expected) for (const result of results) result.dispose();
      else expected = results;
    }
    for (const result of expected) result.dispose();
  }
  const medians = Object.entries(times).map(([name, all]) => [
    name,
    all.sort((a, b) => a - b)[Math.floor(all.length / 2)],
  ]);
  return { median: Object.fromEntries(medians), worst };
}

async function run({ addon, quick }) {
  const index = await import("../dist/index.js");
  const threads = os.availableParallelism();
  const title = `Specialists side by side, ${threads} processors`;
  console.log(`\n${title}`);
  const records = [];
  for (const shape of shapes) {
    console.log(
      `  w${shape.layers}, d ${shape.dModel}, B=${shape.batch} T=${shape.tokens}; ms, and times the best of serial and pool`,
    );
    const header = ["serial", "pool", "streams", "batched", "auto"].map((name) => name.padStart(8)).join("");
    console.log(`  ${"specialists".padEnd(12)}${header}   streams  batched  auto    wanted`);
    for (const count of counts) {
      const inputs = inputsOf(addon, shape);
      const { swarm, specialists, dispose } = await makeSwarm(index, shape, count, threads);
      const everyone = new index.Activation(shape.batch, count, new Uint8Array(shape.batch * count).fill(1));
      const swarmForm = (execution) => () => {
        swarm.execution = execution;
        return swarm.runSpecialists(inputs, everyone);
      };
      const forms = {
        serial: swarmForm("serial"),
        pool: () => pool(specialists, inputs, threads),
        streams: swarmForm("streams"),
        batched: swarmForm("batched"),
        auto: swarmForm("auto"),
      };
      // "auto" has measured by the time it is timed, in a process that is as it will be: the more threads OpenMP keeps for the lanes, the less
      // they spin, and the dearer a parallel region is.
      for (const form of [...Object.values(forms), ...Array(20).fill(forms.auto)])
        for (const each of await form()) each.dispose();
      const { median, worst } = await timed(forms, quick ? Math.ceil(shape.rounds / 3) : shape.rounds);
      const [choice] = swarm.executionChoices();
      dispose();
      inputs.inputIds.dispose();
      if (!(worst <= TOLERANCE)) {
        console.log(`  no figures: results differ by ${worst}`);
        return null;
      }
      const reference = Math.min(median.serial, median.pool);
      const ratio = (name) => (median[name] / reference).toFixed(2).padStart(7);
      const times = Object.values(median).map((value) => value.toFixed(2).padStart(8));
      const chosen = choice ? ` (chose ${choice.chosen})` : "";
      console.log(
        `  ${String(count).padEnd(12)}${times.join("")} ${ratio("streams")}x ${ratio("batched")}x ${ratio("auto")}x   ${WANTED}x${chosen}`,
      );
      records.push({
        ...shape,
        count,
        milliseconds: median,
        largestDifference: worst,
        chosen: choice?.chosen,
      });
    }
  }
  return { case: "lanes", title, threads, forms: records };
}

export const laneCases = [{ name: "lanes", run }];
