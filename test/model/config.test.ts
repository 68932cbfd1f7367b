import { describe, expect, it } from "vitest";
import { resolveAnnotator, resolveCausalLM } from "../../lib/model/config.js";
import { type ArchLayout, parseLayout } from "../../lib/model/layout.js";

const flat = { archLayout: ["w2"], dModel: 64 };

it("leaves out what n-grams do not have, so that a run of before is the same model", () => {
  const ngramsOf = (ngrams: object) =>
    resolveAnnotator({ ...flat, labels: ["a", "b"], ngrams: { buckets: 64, ...ngrams } }).ngrams;
  const before = { sizes: [2, 3, 4, 5, 6], buckets: 64, width: 48 };
  expect(ngramsOf({})).toEqual(before);
  expect(ngramsOf({ lowercase: false, shapes: false })).toEqual(before);
  expect(ngramsOf({ lowercase: true, shapes: true })).toEqual({ ...before, lowercase: true, shapes: true });
});

describe("layouts", () => {
  it("nested lists become stages, outermost first", () => {
    const stages = parseLayout(["w2", ["w1", ["w1W2"], "W1"], "w1"]);
    const codes = stages.map((stage) =>
      [stage.encoder, stage.decoder].map((b) => b?.map(({ code }) => code).join("")),
    );
    expect(codes).toEqual([
      ["ww", "w"],
      ["w", "W"],
      ["wWW", undefined],
    ]);
  });

  it('"<" reverses the blocks of the code behind it', () => {
    expect(parseLayout(["w1<w2W1"])[0]!.encoder).toEqual([
      { code: "w", reversed: false },
      { code: "w", reversed: true },
      { code: "w", reversed: true },
      { code: "W", reversed: false },
    ]);
  });

  it.each(["m", "M", "t", "T", "r", "R"])(
    "code %s is refused by an error that names the supported codes",
    (code) => {
      expect(() => parseLayout([`${code}4`])).toThrow(/block code ".".*not built.*supported: "w".*"W"/);
    },
  );

  it.each([
    [["x2"], /"x" in "x2" is unknown; supported/],
    [["w"], /"w" is not codes with counts/],
    [["w1<"], /"w1<" is not codes with counts/],
    [["<m1"], /block code "m" in "<m1" is not built/],
    [["w2 w2"], /not codes with counts/],
    [["w0"], /asks for 0 blocks/],
    [["w2", "w2"], /neither \["blocks"\] nor/],
    [["w2", ["w2"]], /neither/],
    [[["w2"]], /neither/],
    [["w2", "w2", "w2"], /neither/],
  ])("%j is refused", (layout, message) => {
    expect(() => parseLayout(layout)).toThrow(message);
  });

  it("without end are refused", () => {
    let deep: ArchLayout = ["w1"];
    for (let i = 0; i < 32; i++) deep = ["w1", deep, "w1"];
    expect(() => resolveCausalLM({ ...flat, archLayout: deep })).toThrow(/archLayout: more than 32 stages/);
    const within: unknown[] = ["w1", null, "w1"];
    within[1] = within;
    expect(() => resolveCausalLM({ ...flat, archLayout: within as unknown as ArchLayout })).toThrow(
      /archLayout: more than 32 stages/,
    );
    for (let i = 0; i < 100_000; i++) deep = ["w1", deep, "w1"];
    expect(() => resolveCausalLM({ ...flat, archLayout: deep })).toThrow(
      /^model options: nested too deeply, or an object within itself$/,
    );
  });
});

describe("options", () => {
  it("fill in what is not given, and are complete: resolving them again changes nothing", () => {
    const resolved = resolveAnnotator({ preset: "tiny", labels: ["a", "b"] });
    expect(resolved).toMatchObject({
      dModel: [64, 96],
      headSize: [32, 32],
      downsample: [4],
      init: "annotation",
    });
    expect(resolveAnnotator(resolved)).toEqual(resolved);
    expect(resolveCausalLM(flat).init).toBe("rwkv");
    const rounded = resolveCausalLM({ ...flat, precision: "bf16" });
    expect(rounded.precision).toBe("bf16");
    expect(resolveCausalLM(rounded)).toEqual(rounded);
    expect(resolveCausalLM({ ...flat, precision: "f32" })).toEqual(resolveCausalLM(flat));
  });

  it.each([
    [{ ...flat, dmodel: 64 }, /unknown option 'dmodel'; did you mean 'dModel'/],
    [{ ...flat, headSize: 48 }, /headSize: 48 does not divide dModel 64 of stage 0/],
    [{ ...flat, dModel: [64, 64] }, /dModel: has 2 entries, expected 1/],
    [{ archLayout: ["w1", ["w1"], "w1"], dModel: [96, 64] }, /stage 1 is 64 wide, narrower/],
    [{ archLayout: ["w1", ["w1"], "w1"], dModel: 64, downsample: 1 }, /downsample/],
    [{ archLayout: ["w2"] }, /give archLayout and dModel, or a preset/],
    [{ ...flat, dModel: -1 }, /dModel/],
    [{ ...flat, init: "zeros" }, /init/],
    [{ ...flat, precision: "f16" }, /precision/],
    [{ ...flat, precision: "bf16", dtype: "f64" }, /precision: "bf16" needs dtype "f32", which is "f64"/],
  ])("%j is refused", (options, message) => {
    expect(() => resolveCausalLM(options as never)).toThrow(message);
  });

  it("labels are named once each and agree with numLabels", () => {
    expect(() => resolveAnnotator(flat)).toThrow(/needs labels \(names\) or numLabels/);
    expect(() => resolveAnnotator({ ...flat, labels: ["a", "b", "a"] })).toThrow(/'a' occurs twice/);
    expect(() => resolveAnnotator({ ...flat, labels: ["a"], numLabels: 2 })).toThrow(/numLabels is 2/);
    expect(() => resolveAnnotator({ ...flat, numLabels: 1e9 })).toThrow(/numLabels: Too big/);
    expect(resolveAnnotator({ ...flat, numLabels: 2 }).labels).toEqual(["label0", "label1"]);
  });
});
