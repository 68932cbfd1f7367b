// Two frozen specialists, a primary that may ask them, one forward over two columns: node examples/swarm.mjs
import { AegirForColumnAnnotation, FrozenSpecialist, SwarmOrchestrator, Tensor } from "aegir-swarm";

const model = (seed) => new AegirForColumnAnnotation({ preset: "tiny", labels: ["city", "price"] }, { seed });
const specialists = ["places", "numbers"].map((id, i) => new FrozenSpecialist(model(i), { id }));
const swarm = new SwarmOrchestrator({ primaryModel: model(9), specialists, activationThreshold: 0.4 });

const cells = ["Lisbon", "€ 9.50"].map((cell) => [...Buffer.from(cell)]);
const inputIds = Tensor.from(
  cells.map((bytes) => [...bytes, 256, 256].slice(0, 8)),
  { dtype: "i64" },
);
const lengths = Tensor.from(
  cells.map((bytes) => bytes.length),
  { dtype: "i64" },
);
const result = await swarm.forward({ inputIds, lengths, routingHidden: "auto" });

console.log("logits", result.output.logits.shape, "activated", [...result.activationMask.data()]);
console.log("critical path", result.timing.criticalPath);
