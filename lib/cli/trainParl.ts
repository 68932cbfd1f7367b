import { join } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { specialistOf } from "../train/columnModel.js";
import { type LoadedRun, loadRun } from "../train/loadRun.js";
import { type ParlRun, trainParl } from "../train/parl.js";
import { parlOptions } from "../train/parlOptions.js";
import { readRunConfig } from "../train/runFolder.js";
import { Scope } from "../train/tensors.js";
import { settingsFrom } from "./settings.js";
import { calibratedOutcome, runTraining, type TrainFlags, trainingCommand } from "./trainingCommand.js";

/** `aegir-swarm train parl`. */
export function addParl(train: Command): void {
  const command = trainingCommand(train, "parl", parlOptions)
    .description("Train a primary, a router and fusion over frozen specialists by reinforcement learning.")
    .option(
      "--specialist <name=run>",
      "a run to freeze as a specialist (supervised or specialist); repeat for each",
      specialistFlag,
      [],
    )
    .option(
      "--stand-in <name=run>",
      "with --learn-from held-out: a run that was trained as the specialist, with --hold-out; repeat for each",
      specialistFlag,
      [],
    )
    .option(
      "--init <run>",
      "start from this run: a model for the primary, or a swarm of the same specialists",
    )
    .action(async (flags: TrainFlags & { specialist: SpecialistFlag[]; standIn: SpecialistFlag[] }) => {
      await runTraining(command, flags, async (common, warn) => {
        const named = flags.resume ? await recordedSpecialists(flags.out) : flags.specialist;
        using scope = new Scope();
        const specialists: ParlRun["specialists"] = [];
        for (const { id, run } of named) {
          const loaded = scope.keep(await loadRun(run, { name: id }));
          specialists.push(specialistOf(loaded, id, `--specialist ${id}`));
        }
        const standing = flags.resume ? ((await readRunConfig(flags.out)).standIns ?? []) : flags.standIn;
        const standIns: Record<string, LoadedRun> = {};
        for (const { id, run } of standing) standIns[id] = scope.keep(await loadRun(run, { name: id }));
        const given = settingsFrom(command, parlOptions);
        if (given.learnFrom === "held-out") warn(answering(named, standing));
        const trained = await trainParl({
          ...common,
          ...given,
          specialists,
          standIns,
          init: flags.init,
          onWarning: warn,
        });
        trained[Symbol.dispose]();
        return calibratedOutcome(trained);
      });
    });
}

/** Who speaks on the held-out sites while a swarm learns. */
function answering(specialists: readonly SpecialistFlag[], standIns: readonly SpecialistFlag[]): string {
  const stood = standIns.map(({ id }) => id);
  const rest = specialists.map(({ id }) => id).filter((id) => !stood.includes(id));
  const themselves = `${rest.join(", ")} answer for themselves, linear ones by fits without a column's site, models by what they know, by heart where they were trained on it`;
  const parts = [
    ...(stood.length > 0 ? [`stand-ins answer for ${stood.join(", ")}`] : []),
    ...(rest.length > 0 ? [themselves] : []),
  ];
  return `on the held-out sites ${parts.join("; ")}`;
}

interface SpecialistFlag {
  id: string;
  run: string;
}

function specialistFlag(text: string, former: SpecialistFlag[]): SpecialistFlag[] {
  const at = text.indexOf("=");
  if (at <= 0 || at === text.length - 1)
    throw new InvalidArgumentError("expected name=run, as in people=runs/people");
  return [...former, { id: text.slice(0, at), run: text.slice(at + 1) }];
}

/** A swarm's run folder holds its specialists. */
async function recordedSpecialists(dir: string): Promise<SpecialistFlag[]> {
  const { swarm } = await readRunConfig(dir);
  const ids = (swarm?.specialists ?? []) as string[];
  return ids.map((id) => ({ id, run: join(dir, "specialists", id) }));
}
