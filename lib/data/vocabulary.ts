/** Token and role ids. Bytes are their own ids, so every byte string is valid input; specials stand above 255. */
export const Token = {
  PAD: 256,
  /** Decision token: ends the target column. */
  CLS: 257,
  /** Ends a context or subject column. */
  SEP: 258,
  /** Starts a cell. */
  CELL: 259,
  /** Hides a byte in masked pretraining. */
  MASK: 260,
  /** Starts a header. */
  HEADER: 261,
} as const;

/** Rows of the embedding table; ids 262 and 263 are unused. */
export const vocabSize = 264;

export const Role = {
  special: 0,
  context: 1,
  /** The main column of a CPA pair. */
  subject: 2,
  target: 3,
  header: 4,
} as const;

/** Rows of the role embedding; 5 to 7 are unused. */
export const numRoles = 8;
