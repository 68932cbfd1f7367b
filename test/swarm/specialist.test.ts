import { describe, expect, it } from "vitest";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import type { NativeModule } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { AlignmentProjection, FrozenSpecialist, SwarmOrchestrator } from "../../lib/swarm/index.js";
import { AdamW } from "../../lib/train/optimizer.js";
import { randomOf, testSeed } from "../rl/support.js";
import { expectError, i64, PRIMARY, randomInputs, specialist, WIDER } from "./support.js";

const seed = testSeed("specialist");

/** Sum of |values| of all parameters: changes with any training step. */
function fingerprint(module: NativeModule): number {
  let sum = 0;
  for (const tensor of Object.values(module.stateDict())) {
    const magnitude = tensor.unary("abs");
    sum += magnitude.reduce("sum").item();
    magnitude.dispose();
    tensor.dispose();
  }
  return sum;
}

describe("FrozenSpecialist", () => {
  it("builds no graph and refuses one", async () => {
    const frozen = specialist(1, "frozen");
    using inputs = randomInputs(randomOf(seed), 3, 12);
    const said = await frozen.forward(inputs);
    const tensors = [...said.states[1]!, said.output!.logits, said.output!.pooled];
    expect(tensors.map((tensor) => tensor.requiresGrad)).toEqual(tensors.map(() => false));
    expect(frozen.model.frozen).toBe(true);
    said.dispose();
  });

  it("never changes while primary, router, fusion and alignment learn", async () => {
    const primary = new AegirForColumnAnnotation(PRIMARY, { seed: 2 });
    const model = new AegirForColumnAnnotation(WIDER, { seed: 3 });
    const alignment = AlignmentProjection.between(model, primary);
    const frozen = new FrozenSpecialist(model, { id: "wider", alignment });
    const swarm = new SwarmOrchestrator({
      primaryModel: primary,
      specialists: [frozen],
      fuse: "states+outputs",
    });
    const modules = swarm.modules();
    expect(Object.keys(modules)).toEqual(["primary", "router", "fusion", "outputFusion", "alignment.wider"]);
    const optimizer = new AdamW(Object.values(modules).map((module) => ({ module })));
    const hash = frozen.weightsHash();
    const before = Object.values(modules).map(fingerprint);

    using inputs = randomInputs(randomOf(seed), 4, 16);
    const labels = i64([0, 1, 2, 3]);
    const mask = [[true], [false], [true], [true]];
    const losses: number[] = [];
    for (let step = 0; step < 5; step++) {
      const prefix = await swarm.prefix(inputs, { grad: true });
      const { logits: scores } = await swarm.route(prefix.routingHidden, { grad: true });
      const results = await swarm.runSpecialists(inputs, mask);
      const output = await swarm.complete(prefix, mask, results, { grad: true });
      const { loss } = await native().crossEntropy(primary.lane, { logits: output.logits, labels });
      const routerLoss = scores.reduce("sum");
      await native().backward(primary.lane, [loss, routerLoss], [1, 1]);
      const { skipped } = await optimizer.step(primary.lane, { lr: 1e-2, clipNorm: 1 });
      expect(skipped).toBe(false);
      losses.push(loss.item());
    }
    expect(losses.at(-1)).toBeLessThan(losses[0]!);
    expect(frozen.weightsHash()).toBe(hash);
    const after = Object.values(modules).map(fingerprint);
    for (const [i, name] of Object.keys(modules).entries()) {
      expect(after[i], `${name} learns`).not.toBe(before[i]);
    }
  });

  it("names the specialist in its errors", async () => {
    const frozen = specialist(1, "frozen");
    const inputIds = native().Tensor.full([2], 0, "i64");
    await expect(frozen.forward({ inputIds })).rejects.toEqual(
      expectError("ERR_SHAPE", /^specialist 'frozen': /),
    );
    const alignment = new AlignmentProjection({
      specialist: { layers: 1, heads: 1, headSize: 8 },
      primary: { layers: 1, heads: 1, headSize: 8 },
    });
    expect(() => specialist(1, "odd", PRIMARY, { alignment })).toThrow(
      expectError("ERR_CONFIG", /'odd'.*1 layers of 1 heads of 8.*2 layers of 4 heads of 16/),
    );
    expect(() => new FrozenSpecialist(frozen.model, { id: "" })).toThrow(expectError("ERR_CONFIG", /id/));
  });
});
