// The package's install script: libtorch found or got with pip, and an addon that loads on it.
import { runScript, setUp } from "./build/setup.mjs";

if (process.env.AEGIR_SKIP_INSTALL !== "1") runScript(() => setUp());
