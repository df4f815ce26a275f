// Where a reason sits among the arguments of `stark.reject`: in the first one, an object.

type Target = Readonly<Record<string, unknown>>;

function target(args: readonly unknown[]): Target {
  const first = args[0];
  return typeof first === "object" && first !== null ? (first as Target) : {};
}

export function hasReason(args: readonly unknown[]): boolean {
  return typeof target(args)["reason"] === "string";
}

export function withReason(args: readonly unknown[], reason: string): unknown[] {
  return [{ ...target(args), reason }, ...args.slice(1)];
}
