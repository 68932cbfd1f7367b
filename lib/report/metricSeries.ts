import type { MetricRecord } from "../train/metricsLog.js";
import type { Series } from "./lineChart.js";

/** A figure of a run's records over its steps; records without it are left out. */
export function metricSeries(records: MetricRecord[], kind: string, field: string, name: string): Series {
  return {
    name,
    points: records
      .filter((record) => record.kind === kind && typeof record[field] === "number")
      .map((record) => [record.step, record[field] as number]),
  };
}
