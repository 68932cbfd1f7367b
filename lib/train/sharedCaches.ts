import type { SpecialistCache } from "../swarm/index.js";

/**
 * What specialists say, computed once for several trainings of the same specialists on the same data with the same seed. The first
 * that asks fills a cache, the others wait for it; `dispose` frees them all once the trainings have ended.
 */
export class SharedCaches implements Disposable {
  readonly #caches = new Map<string, Promise<SpecialistCache>>();

  get(what: string, fill: () => Promise<SpecialistCache>): Promise<SpecialistCache> {
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
        (filled) => filled.dispose(),
        () => undefined,
      );
    }
    this.#caches.clear();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
