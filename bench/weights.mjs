// Hands a model's parameters to Python: one file of float32 values each.
import fs from "node:fs";
import path from "node:path";

/** Writes FOLDER/NAME.f32 for every parameter; the shapes by name. */
export function exportWeights(model, folder) {
  const shapes = {};
  for (const [name, tensor] of Object.entries(model.stateDict())) {
    shapes[name] = tensor.shape;
    fs.writeFileSync(path.join(folder, `${name}.f32`), tensor.data());
    tensor.dispose();
  }
  return shapes;
}
