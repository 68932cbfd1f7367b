/** What a system learns on that is judged by the other half of the validation sites, and the other way round (`learnFromValidation`). */
export const HALVES = ["validation", "validation-rest"] as const;
export type Half = (typeof HALVES)[number];
