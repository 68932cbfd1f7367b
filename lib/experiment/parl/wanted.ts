import { type Estimate, pairedDifference } from "../interval.js";
import type { Arm } from "./arms.js";
import type { Control, ReportRow } from "./summary.js";

/** A figure of the generated task beside what is wanted of its mean. */
export interface Wanted {
  what: string;
  value: Estimate;
  /** Exactly one of them. */
  least?: number;
  most?: number;
  reached: boolean;
}

/** The figures that are wanted on the generated task; differences are by seed. */
export function judge(rows: readonly ReportRow[]): Wanted[] {
  const of = (arm: Arm, control: Control = "learned") =>
    rows.find((row) => row.arm === arm && row.control === control)!;
  const minus = (a: ReportRow, b: ReportRow) => pairedDifference(a.macroF1.values, b.macroF1.values);
  return [
    atLeast("trained together: macro F1 over the primary alone", of("together").gain, 0.025),
    atMost("trained together: activation", of("together").activation!, 0.5),
    atLeast(
      "trained together: macro F1 over its rates shuffled",
      minus(of("together"), of("together", "shuffled")),
      0.03,
    ),
    atLeast("router alone: macro F1 over all-on", minus(of("router"), of("router", "all-on")), -0.01),
    atMost("router alone: activation", of("router").activation!, 0.3),
    atLeast(
      "router alone: macro F1 over its rates shuffled",
      minus(of("router"), of("router", "shuffled")),
      0.03,
    ),
    atMost("random specialists: activation", of("random").activation!, 0.05),
  ];
}

function atLeast(what: string, value: Estimate, least: number): Wanted {
  return { what, value, least, reached: value.mean >= least };
}

function atMost(what: string, value: Estimate, most: number): Wanted {
  return { what, value, most, reached: value.mean <= most };
}
