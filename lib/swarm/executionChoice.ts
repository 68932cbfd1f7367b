/** How the activated specialists of a forward run. */
export type Execution = "streams" | "serial" | "batched";

/** What execution "auto" measured for forwards of one shape. */
export interface ExecutionChoice {
  /** Stacked specialists of each group and those alone, then activated rows and tokens a row, rounded up to powers of two. */
  shape: string;
  /** Milliseconds for a thousand tokens, the best of the counted rounds; null: not measured yet. */
  streams: number | null;
  batched: number | null;
  /** null: still measuring. */
  chosen: "streams" | "batched" | null;
}

/**
 * Rounds of each form, in blocks of one form and the other. The first of a block is not counted: it makes the stack or warms up, and
 * threads of the other form's parallel regions may still spin beside it.
 */
const ROUNDS = 9;
const BLOCK = 3;
/** What batched has to save, as it keeps a copy of the weights. */
const MARGIN = 0.1;
const FORMS = ["streams", "batched"] as const;

type Form = (typeof FORMS)[number];

/** Which of two forms with the same results is faster, measured once a shape on the forwards themselves. */
export class ExecutionChooser {
  private readonly measured = new Map<string, Record<Form, number[]>>();

  /** The faster form where it is known, else the one to measure now. */
  choose(shape: string): { form: Form; measure: boolean } {
    const rounds = this.roundsOf(shape);
    const chosen = this.chosen(rounds);
    if (chosen) return { form: chosen, measure: false };
    const blocks = Math.floor((rounds.streams.length + rounds.batched.length) / BLOCK);
    return { form: FORMS[blocks % 2]!, measure: true };
  }

  /** @param milliseconds for a thousand tokens */
  record(shape: string, form: Form, milliseconds: number): void {
    this.roundsOf(shape)[form].push(milliseconds);
  }

  choices(): ExecutionChoice[] {
    return [...this.measured].map(([shape, rounds]) => ({
      shape,
      streams: best(rounds.streams),
      batched: best(rounds.batched),
      chosen: this.chosen(rounds),
    }));
  }

  private roundsOf(shape: string): Record<Form, number[]> {
    const known = this.measured.get(shape);
    if (known) return known;
    const rounds = { streams: [], batched: [] };
    this.measured.set(shape, rounds);
    return rounds;
  }

  private chosen(rounds: Record<Form, number[]>): Form | null {
    if (FORMS.some((form) => rounds[form].length < ROUNDS)) return null;
    return best(rounds.batched)! < (1 - MARGIN) * best(rounds.streams)! ? "batched" : "streams";
  }
}

function best(rounds: number[]): number | null {
  const counted = rounds.filter((_, round) => round % BLOCK > 0);
  return counted.length > 0 ? Math.min(...counted) : null;
}
