#!/usr/bin/env node
// Stands in for node-gyp in prebuildify, whose arguments (`rebuild --target=… --release`) say nothing that cmake-js needs.
import { buildAddon } from "./build/compile.mjs";
import { ensureLibtorch } from "./build/libtorch.mjs";

buildAddon(ensureLibtorch(), { verbose: true });
