// Prints the folders of the packages that the compiled package needs at run time, with what they need themselves.
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";
import { packageRoot } from "../build/libtorch.mjs";

const found = new Set();

function visit(from) {
  const require = createRequire(path.join(from, "package.json"));
  const { dependencies = {} } = JSON.parse(fs.readFileSync(path.join(from, "package.json"), "utf8"));
  for (const name of Object.keys(dependencies)) {
    if (name === "cmake-js") continue; // CMake is called directly
    const folder = require.resolve
      .paths(name)
      .map((directory) => path.join(directory, name))
      .find((candidate) => fs.existsSync(path.join(candidate, "package.json")));
    if (!folder || found.has(folder)) continue;
    found.add(folder);
    visit(folder);
  }
}

visit(packageRoot);
for (const folder of found) console.log(path.relative(packageRoot, folder));
