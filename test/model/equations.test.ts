import { afterAll, describe, expect, it } from "vitest";
import { native } from "../../lib/native/load.js";
import { PlainModel, type PlainResult, readParameters } from "./reference.js";
import { causalLM, dispose, expectClose, type Geometry, geometries, idTensor, values } from "./support.js";

// Repeats and changes: chunked geometries get boundaries of both kinds.
const ids = [104, 108, 108, 108, 111, 257, 49, 49];
/** Both sides compute in f64; their sums differ in order. */
const EQUAL = 1e-11;
const STEP = 1e-4;

describe.each(Object.keys(geometries) as Geometry[])(
  "the model against its equations in plain numbers, %s",
  (geometry) => {
    const model = causalLM(geometry, { dtype: "f64" });
    const tensors = model.stateDict();
    const parameters = readParameters(tensors);
    dispose(...Object.values(tensors));
    const plain = new PlainModel(parameters, model.options);
    const base = plain.forward(ids);
    const weights = base.logits.map((row, t) => row.map((_, c) => Math.sin(1 + 3 * t + 0.7 * c)));
    afterAll(() => model.dispose());

    const objective = ({ logits, ratioLoss }: PlainResult) =>
      logits.reduce((sum, row, t) => sum + row.reduce((s, x, c) => s + x * weights[t]![c]!, 0), ratioLoss);

    it("gives the same logits, boundaries and ratio loss", async () => {
      const inputIds = idTensor([ids]);
      const output = await model.forward({ inputIds });
      expectClose(values(output.logits), base.logits.flat(), "logits", EQUAL);
      expect(output.ratioLoss.item()).toBeCloseTo(base.ratioLoss, 11);
      const shares = base.decisions.map(({ boundary }) => boundary.filter(Boolean).length / boundary.length);
      expect(output.boundaryRates).toEqual(shares);
      // Chunking is tried only if some tokens were kept and some were not.
      if (model.geometry.stages > 1) expect(shares[0]).toBeLessThan(1);
      dispose(inputIds, output);
    });

    it("gives the gradients of those equations, through the straight-through estimator too", async () => {
      const inputIds = idTensor([ids]);
      const output = await model.forward({ inputIds }, { grad: true });
      const cotangent = native().Tensor.fromData(
        Float64Array.from(weights.flat()),
        output.logits.shape,
        "f64",
      );
      const product = output.logits.mul(cotangent);
      const sum = product.reduce("sum");
      const losses = output.ratioLoss.requiresGrad ? [sum, output.ratioLoss] : [sum];
      await native().backward(
        model.lane,
        losses,
        losses.map(() => 1),
      );
      const gradients = model.native.gradients();
      for (const [name, { values: entries }] of parameters) {
        const analytic = gradients[name] ? values(gradients[name]) : [];
        // The embedding's rows that the text uses, of the others any.
        const first = name.endsWith("byteEmbedding.weight") ? 108 * model.geometry.dModel : 0;
        for (const i of new Set([first + 3, Math.floor(entries.length / 2)])) {
          if (i >= entries.length) continue;
          const at = (offset: number) => {
            const original = entries[i]!;
            entries[i] = original + offset;
            const value = objective(plain.forward(ids, base.decisions));
            entries[i] = original;
            return value;
          };
          const numeric = (at(STEP) - at(-STEP)) / (2 * STEP);
          // Truncation of order STEP^2 times the third derivative, rounding of order 1e-16 / STEP times the objective's terms.
          const tolerance = 1e-5 * Math.max(1, Math.abs(numeric));
          const difference = Math.abs(numeric - (analytic[i] ?? 0));
          expect(difference, `${name}[${i}]: numeric ${numeric}, analytic ${analytic[i]}`).toBeLessThan(
            tolerance,
          );
        }
      }
      dispose(inputIds, output, cotangent, product, sum, ...Object.values(gradients));
    });
  },
);
