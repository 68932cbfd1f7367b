import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import type { AegirForCausalLM } from "../../lib/model/index.js";
import type { NativeState } from "../../lib/native/contract.js";
import {
  causalLM,
  dispose,
  expectClose,
  expectSameState,
  geometryKinds,
  idTensor,
  indexTensor,
  LAW_TOLERANCE,
  rowValues,
  stateValues,
} from "./support.js";

// Few distinct bytes: repeats make tokens that are no boundary, changes make boundaries.
const token = fc.constantFrom(32, 48, 97, 98, 200, 257);
const sequence = fc.array(token, { minLength: 1, maxLength: 13 });
/** Long and uneven enough to have boundaries and tokens between them, which six drawn sequences now and then have not. */
const LONG = [
  32, 32, 97, 97, 97, 48, 200, 200, 98, 98, 257, 32, 97, 97, 48, 48, 200, 257, 257, 98, 32, 97, 200, 200,
];
const batch = fc.array(sequence, { minLength: 1, maxLength: 4 });

interface Run {
  /** Logits of every token in order. */
  logits: number[];
  state: Record<string, number[]>;
  boundaryRates: number[];
}

/** One sequence by itself, from a state where one is given; the caller owns `final`. */
async function run(
  model: AegirForCausalLM,
  ids: number[],
  from?: NativeState,
): Promise<Run & { final: NativeState }> {
  const inputIds = idTensor([ids]);
  const output = await model.forward({ inputIds, state: from });
  const result = {
    logits: rowValues(output.logits, 0),
    state: stateValues(output, 0),
    boundaryRates: output.boundaryRates,
    final: output.state,
  };
  dispose(inputIds, output.logits, output.routingHidden, output.ratioLoss);
  return result;
}

async function runWhole(model: AegirForCausalLM, ids: number[]): Promise<Run> {
  const result = await run(model, ids);
  result.final.dispose();
  return result;
}

describe.each(geometryKinds)("laws of the state, $geometry in $dtype", ({ geometry, dtype, noise }) => {
  const model = causalLM(geometry, { dtype, noise });
  const tolerance = LAW_TOLERANCE[dtype];
  afterAll(() => model.dispose());

  it("a sequence split at any position gives the same outputs and the same final state", async () => {
    await fc.assert(
      fc.asyncProperty(sequence, async (ids) => {
        const whole = await runWhole(model, ids);
        for (let split = 1; split < ids.length; split++) {
          const head = await run(model, ids.slice(0, split));
          const tail = await run(model, ids.slice(split), head.final);
          expectClose([...head.logits, ...tail.logits], whole.logits, `split at ${split}`, tolerance);
          expectSameState(tail.state, whole.state, `split at ${split}`, tolerance);
          dispose(head.final, tail.final);
        }
      }),
      { numRuns: 6 },
    );
  });

  it("single steps give what one forward gives, across boundaries and between them", async () => {
    const seen = new Set<number>();
    await fc.assert(
      fc.asyncProperty(sequence, async (ids) => {
        const whole = await runWhole(model, ids);
        const logits: number[] = [];
        let state: NativeState | undefined;
        let last: Run | undefined;
        for (const id of ids) {
          const step = await run(model, [id], state);
          if (state) for (const rate of step.boundaryRates.slice(0, 1)) seen.add(rate);
          state?.dispose();
          state = step.final;
          logits.push(...step.logits);
          last = step;
        }
        state?.dispose();
        expectClose(logits, whole.logits, "steps", tolerance);
        expectSameState(last!.state, whole.state, "steps", tolerance);
      }),
      { numRuns: 6, examples: [[LONG]] },
    );
    // The law says something about chunking only if continued sequences met boundaries and non-boundaries.
    if (model.geometry.stages > 1) expect([...seen].sort()).toEqual([0, 1]);
  });

  it("right padding changes nothing", async () => {
    await fc.assert(
      fc.asyncProperty(batch, async (rows) => {
        const inputIds = idTensor(rows);
        const lengths = indexTensor(rows.map((row) => row.length));
        const padded = await model.forward({ inputIds, lengths });
        for (const [i, row] of rows.entries()) {
          const alone = await runWhole(model, row);
          expectClose(rowValues(padded.logits, i, row.length), alone.logits, `row ${i}`, tolerance);
          expectSameState(stateValues(padded, i), alone.state, `row ${i}`, tolerance);
        }
        dispose(inputIds, lengths, padded);
      }),
      { numRuns: 6 },
    );
  });

  it("packed sequences equal the sequences one by one", async () => {
    await fc.assert(
      fc.asyncProperty(batch, async (rows) => {
        const inputIds = idTensor([rows.flat()]);
        let end = 0;
        const cuSeqlens = indexTensor([0, ...rows.map((row) => (end += row.length))]);
        const packed = await model.forward({ inputIds, cuSeqlens });
        const alone = await Promise.all(rows.map((row) => runWhole(model, row)));
        expectClose(
          rowValues(packed.logits, 0),
          alone.flatMap(({ logits }) => logits),
          "packed",
          tolerance,
        );
        for (const i of rows.keys())
          expectSameState(stateValues(packed, i), alone[i]!.state, `sequence ${i}`, tolerance);
        dispose(inputIds, cuSeqlens, packed);
      }),
      { numRuns: 6 },
    );
  });

  it("padded rows continue from states of rows of other lengths", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(sequence, sequence), { minLength: 2, maxLength: 4 }),
        async (pairs) => {
          const heads = idTensor(pairs.map(([head]) => head));
          const headLengths = indexTensor(pairs.map(([head]) => head.length));
          const first = await model.forward({ inputIds: heads, lengths: headLengths });
          const tails = idTensor(pairs.map(([, tail]) => tail));
          const tailLengths = indexTensor(pairs.map(([, tail]) => tail.length));
          const second = await model.forward({ inputIds: tails, lengths: tailLengths, state: first.state });
          for (const [i, [head, tail]] of pairs.entries()) {
            const whole = await runWhole(model, [...head, ...tail]);
            const both = [
              ...rowValues(first.logits, i, head.length),
              ...rowValues(second.logits, i, tail.length),
            ];
            expectClose(both, whole.logits, `row ${i}`, tolerance);
            expectSameState(stateValues(second, i), whole.state, `row ${i}`, tolerance);
          }
          dispose(heads, headLengths, tails, tailLengths, first, second);
        },
      ),
      { numRuns: 6 },
    );
  });
});
