// Two frozen specialists and a primary that may ask them: node examples/swarm.mjs
import { AegirForColumnAnnotation, FrozenSpecialist, SwarmOrchestrator, Tensor } from "aegir-swarm";

const model = (seed) => new AegirForColumnAnnotation({ preset: "tiny", labels: ["city", "price"] }, { seed });
const swarm = new SwarmOrchestrator({
  primaryModel: model(1),
  specialists: ["places", "numbers"].map((id, i) => new FrozenSpecialist(model(2 + i), { id })),
});
const inputIds = Tensor.from([[...Buffer.from("Lisbon|Porto|Braga|Faro")]], { dtype: "i64" });
const result = await swarm.forward({ inputIds, routingHidden: "auto", routing: "all-on" });
console.log(result.output.logits.softmax(1).data(), result.timing.criticalPath);
