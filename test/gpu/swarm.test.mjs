// A swarm on the GPU against the same swarm on the CPU, and the policy and losses of its training.
import assert from "node:assert/strict";
import { AegirForColumnAnnotation, FrozenSpecialist, SwarmOrchestrator } from "../../dist/index.js";
import { addon, close, gpuTest, i64, lane, normal, onGpu, uniform } from "./support.mjs";

const primaryOptions = { archLayout: ["w1", ["w2"], "w1"], dModel: [64, 128], headSize: 32, numLabels: 5 };
const specialistOptions = [
  { archLayout: ["w1", ["w2"], "w1"], dModel: [64, 128], headSize: 32, numLabels: 3 },
  { archLayout: ["w3"], dModel: 128, headSize: 32, numLabels: 4 },
];
const tokens = 40;
const lengths = [40, 7, 1, 33, 20, 40];
const ids = Int32Array.from({ length: lengths.length * tokens }, (_, i) => (i * 7919) % 256);
const inputs = {
  inputIds: addon.Tensor.fromData(ids, [lengths.length, tokens], "i64"),
  lengths: i64(lengths),
};

function swarmOn(device, fuse) {
  const primaryModel = new AegirForColumnAnnotation(primaryOptions, { seed: 1, device });
  const specialists = specialistOptions.map(
    (options, n) =>
      new FrozenSpecialist(new AegirForColumnAnnotation(options, { seed: 2 + n, device }), { id: `s${n}` }),
  );
  return new SwarmOrchestrator({ primaryModel, specialists, fuse });
}

function disposeSwarm(swarm) {
  swarm.dispose();
  for (const { model } of [{ model: swarm.primary }, ...swarm.specialists]) model.dispose();
}

for (const fuse of ["states", "outputs", "states+outputs"]) {
  for (const routing of ["all-on", "learned"]) {
    gpuTest(`forward and gradients of a swarm, ${fuse}, ${routing}`, async () => {
      const swarms = { cpu: swarmOn("cpu", fuse), gpu: swarmOn("cuda", fuse) };
      const results = {};
      const gradients = {};
      for (const [name, swarm] of Object.entries(swarms)) {
        const result = await swarm.forward({ ...inputs, routingHidden: "auto", routing, grad: true });
        const labels = i64([0, 1, 2, 3, 4, 0]);
        const { logits } = result.output;
        const { loss } = await addon.crossEntropy(swarm.primary.lane, { logits, labels });
        await addon.backward(swarm.primary.lane, [loss], [1]);
        results[name] = result;
        gradients[name] = Object.fromEntries(
          Object.entries(swarm.modules()).map(([module, native]) => [module, native.gradients()]),
        );
      }
      onGpu(results.gpu.output.logits, "logits");
      close("logits", results.gpu.output.logits, results.cpu.output.logits, 1e-4);
      assert.deepEqual(results.gpu.activationMask.toArray(), results.cpu.activationMask.toArray());
      for (const [module, tensors] of Object.entries(gradients.gpu)) {
        for (const [name, gradient] of Object.entries(tensors)) {
          close(`gradient of ${module}.${name}`, gradient, gradients.cpu[module][name], 1e-3);
        }
      }
      const { criticalPath, nodes } = results.gpu.timing;
      assert.ok(nodes.every(({ start, end }) => end >= start && end - start < 60_000));
      assert.ok(criticalPath.wall > 0 && criticalPath.ideal <= criticalPath.work + 1e-6);
      for (const swarm of Object.values(swarms)) disposeSwarm(swarm);
    });
  }
}

gpuTest("the routing policy on the GPU is the CPU's", async () => {
  const z = normal(40, 6).mul(2);
  const old = z.add(normal(40, 6));
  const there = z.to("cuda");
  const seed = 11;
  const draw = async (logits) =>
    (await addon.cappedBernoulliSample(lane, logits, 3, 4, new addon.Generator(seed))).actions;
  const actions = await draw(z);
  assert.deepEqual((await draw(there)).to("cpu").toArray(), actions.toArray());
  const run = async (logits, zOld) => {
    const leaf = logits.clone().detach();
    leaf.requiresGrad = true;
    const { logp } = await addon.cappedBernoulliLogProb(lane, leaf, actions, 3);
    const stats = await addon.cappedBernoulliStats(lane, leaf, 3, zOld);
    const losses = [];
    for (const [i, x] of [logp, stats.marginals, stats.entropy, stats.kl].entries()) {
      losses.push((await addon.weightedSum(lane, x, weights[i])).loss);
    }
    await addon.backward(lane, losses, [1, 1, 1, 1]);
    return { logp, ...stats, grad: leaf.grad() };
  };
  const weights = [normal(4, 40), normal(40, 6), normal(40), normal(40)];
  const expected = await run(z, old);
  const actual = await run(there, old);
  for (const name of ["logp", "marginals", "entropy", "kl", "grad"]) {
    onGpu(actual[name], name);
    close(name, actual[name], expected[name], 1e-10);
  }
  await assert.rejects(addon.cappedBernoulliLogProb(lane, there.mul(Number.NaN), actions, 3), {
    code: "ERR_NON_FINITE",
  });
});

for (const kind of ["ppo", "k25"]) {
  gpuTest(`the clipped token loss on the GPU is the CPU's, ${kind}`, async () => {
    const shape = [7, 900];
    const logpOld = normal(...shape)
      .abs()
      .neg();
    const logp = logpOld.add(normal(...shape).mul(0.4));
    const given = {
      logpOld,
      advantages: normal(...shape),
      weights: uniform(...shape),
      logpRef: logp.add(0.1),
    };
    const options = {
      kind,
      epsLow: 0.2,
      epsHigh: 0.28,
      klCoef: 0.05,
      tau: 0.1,
      aggregation: "seq-mean-token-mean",
    };
    const run = async (device) => {
      const leaf = logp.to(device).clone().detach();
      leaf.requiresGrad = true;
      const { loss, stats } = await addon.tokenClipLoss(lane, { logp: leaf, ...given }, options);
      await addon.backward(lane, [loss], [1]);
      return { loss, stats, grad: leaf.grad() };
    };
    const expected = await run("cpu");
    const actual = await run("cuda");
    onGpu(actual.loss, "loss");
    close("loss", actual.loss, expected.loss, 1e-12);
    close("gradient", actual.grad, expected.grad, 1e-12);
    for (const [name, value] of Object.entries(expected.stats)) {
      assert.ok(Math.abs(actual.stats[name] - value) <= 1e-9 * Math.max(1, Math.abs(value)), name);
    }
    const again = await run("cuda");
    assert.equal(again.loss.to("cpu").equal(actual.loss.to("cpu")), true, "equal bits twice");
  });
}
