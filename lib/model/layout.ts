import { AegirError } from "../errors.js";
import type { BlockSpec } from "../native/contract.js";

/** A block's code, and whether it runs over each sequence from its end to its start. */
export type LayoutBlock = Pick<BlockSpec, "code"> & { reversed: boolean };

/**
 * The shape of a backbone (H-Net's notation). A stage is `[encoder, inner stage, decoder]`, the innermost `[blocks]`;
 * blocks are codes with counts: "w4" is four blocks of RWKV-7 time mix + channel mix, "W2" two of time mix + SwiGLU,
 * "w2W1" both in turn. A "<" before a code reverses its blocks: "w1<w1" is one block from the start to the end of each sequence and
 * one from the end to the start.
 */
export type ArchLayout = readonly (string | ArchLayout)[];

/** One stage of a layout, outermost first: the blocks of its encoder (or only stack) and of its decoder. */
export interface StageLayout {
  encoder: LayoutBlock[];
  decoder?: LayoutBlock[];
}

const MAX_STAGES = 32;
const SUPPORTED = `"w" (RWKV-7 time mix + channel mix) and "W" (RWKV-7 time mix + SwiGLU)`;
const UNSUPPORTED = new Set(["m", "M", "t", "T", "r", "R"]);

/**
 * Reads a nested layout into its stages, outermost first.
 * @throws AegirError ERR_CONFIG naming the part that cannot be read and what is supported.
 */
export function parseLayout(layout: ArchLayout): StageLayout[] {
  const stages: StageLayout[] = [];
  let at: ArchLayout = layout;
  for (;;) {
    if (stages.length === MAX_STAGES) {
      throw new AegirError("ERR_CONFIG", `archLayout: more than ${MAX_STAGES} stages, one within the other`);
    }
    if (at.length === 1 && typeof at[0] === "string") {
      stages.push({ encoder: parseBlocks(at[0]) });
      return stages;
    }
    const [encoder, inner, decoder] = at;
    if (
      at.length !== 3 ||
      typeof encoder !== "string" ||
      !Array.isArray(inner) ||
      typeof decoder !== "string"
    ) {
      throw new AegirError(
        "ERR_CONFIG",
        `archLayout: ${JSON.stringify(at)} is neither ["blocks"] nor ["encoder", [inner stage], "decoder"], ` +
          `as in ["w6"] or ["w2", ["w4"], "w2"]`,
      );
    }
    stages.push({ encoder: parseBlocks(encoder), decoder: parseBlocks(decoder) });
    at = inner;
  }
}

function parseBlocks(text: string): LayoutBlock[] {
  const blocks: LayoutBlock[] = [];
  const parts = text.match(/<?[A-Za-z]\d+/g) ?? [];
  if (parts.length === 0 || parts.join("") !== text) {
    throw new AegirError(
      "ERR_CONFIG",
      `archLayout: "${text}" is not codes with counts, such as "w4", "w2W1" or "w1<w1"`,
    );
  }
  for (const part of parts) {
    const reversed = part.startsWith("<");
    const code = part[reversed ? 1 : 0]!;
    if (code !== "w" && code !== "W") {
      const why = UNSUPPORTED.has(code) ? "is not built in this version" : "is unknown";
      throw new AegirError(
        "ERR_CONFIG",
        `archLayout: block code "${code}" in "${text}" ${why}; supported: ${SUPPORTED}`,
      );
    }
    const count = Number(part.slice(reversed ? 2 : 1));
    if (count < 1 || count > 256) {
      throw new AegirError(
        "ERR_CONFIG",
        `archLayout: "${part}" in "${text}" asks for ${count} blocks, expected 1 to 256`,
      );
    }
    for (let i = 0; i < count; i++) blocks.push({ code, reversed });
  }
  return blocks;
}

/** Whether a layout has blocks that run from the end of a sequence to its start. */
export function hasReversedBlocks(layout: ArchLayout): boolean {
  return parseLayout(layout).some(({ encoder, decoder = [] }) =>
    [...encoder, ...decoder].some(({ reversed }) => reversed),
  );
}
