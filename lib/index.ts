export { AegirError, type ErrorCode } from "./errors.js";
