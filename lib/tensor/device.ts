import { AegirError } from "../errors.js";
import type { DeviceName } from "../native/contract.js";
import { native } from "../native/load.js";

let warned = false;

/**
 * The device that `wanted` names. "auto" takes CUDA where it is usable, else the CPU with one warning a process.
 * @throws AegirError ERR_DEVICE with the reason where CUDA is asked for and not usable
 */
export function resolveDevice(wanted: DeviceName | "auto" = "cpu"): DeviceName {
  if (wanted === "cpu") return "cpu";
  if (wanted !== "auto" && !/^cuda(:\d+)?$/.test(wanted)) {
    throw new AegirError(
      "ERR_DEVICE",
      `device: expected "cpu", "cuda", "cuda:<n>" or "auto", got "${wanted}"`,
    );
  }
  const { available, reason } = native().info().cuda;
  if (available) return wanted === "auto" ? "cuda" : wanted;
  if (wanted !== "auto") {
    throw new AegirError("ERR_DEVICE", `device: "${wanted}" is not usable here: ${reason}`);
  }
  if (!warned) {
    warned = true;
    process.emitWarning(`running on the CPU: ${reason}`, { type: "AegirWarning", code: "AEGIR_DEVICE" });
  }
  return "cpu";
}
