import type { SpecialistCache } from "../swarm/index.js";

/** A cache, and what filling it took. */
export interface FilledCache {
  cache: SpecialistCache;
  /** Milliseconds a row, the median of the batches. */
  time: number;
}

/**
 * What specialists say, computed once for several trainings of the same specialists on the same data with the same seed. The first
 * that asks fills a cache, the others wait for it; `dispose` frees them all once the trainings have ended.
 */
export class SharedCaches implements Disposable {
  readonly #caches = new Map<string, Promise<FilledCache>>();

  get(what: string, fill: () => Promise<FilledCache>): Promise<FilledCache> {
    const present = this.#caches.get(what);
    if (present) return present;
    const made = fill();
    this.#caches.set(what, made);
    return made;
  }

  dispose(): void {
    for (const cache of this.#caches.values()) {
      // A cache that failed to fill has freed what it had.
      void cache.then(
        (filled) => filled.cache.dispose(),
        () => undefined,
      );
    }
    this.#caches.clear();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
