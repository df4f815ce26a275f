// The arguments of commands that tell a run something: pure.

type Target = Readonly<Record<string, unknown>>;

function target(args: readonly unknown[]): Target {
  const first = args[0];
  return typeof first === "object" && first !== null ? (first as Target) : {};
}

export function hasText(args: readonly unknown[]): boolean {
  const text = target(args)["text"];
  return typeof text === "string" && text !== "";
}

export function isAboutAttempt(args: readonly unknown[]): boolean {
  return typeof target(args)["node"] === "number";
}

export function withText(args: readonly unknown[], text: string): unknown[] {
  return [{ ...target(args), text }, ...args.slice(1)];
}

/** One limit of a budget. */
export interface Limit {
  /** Its name in the arguments of `stark.budget`. */
  readonly field: string;
  readonly title: string;
  /** Whether there may be no such limit. */
  readonly optional: boolean;
  readonly whole: boolean;
}

export const LIMITS: readonly Limit[] = [
  { field: "attempts", title: "Attempts", optional: false, whole: true },
  { field: "dollars", title: "US dollars", optional: true, whole: false },
  { field: "tokens", title: "Tokens", optional: true, whole: true },
  { field: "seconds", title: "Seconds", optional: true, whole: false },
];

/** The value that a text stands for; null is no limit, undefined is a text that stands for nothing. */
export function parseLimit(limit: Limit, text: string): number | null | undefined {
  const trimmed = text.trim();
  if (trimmed === "") {
    return limit.optional ? null : undefined;
  }
  const value = Number(trimmed);
  const fits = Number.isFinite(value) && value > 0 && (!limit.whole || Number.isInteger(value));
  return fits ? value : undefined;
}
