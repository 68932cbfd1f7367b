// Makes sure of libtorch and compiles the addon: `npm run build:native`.
import { runScript, setUp } from "./setup.mjs";

runScript(() => setUp({ rebuild: true, verbose: true }));
