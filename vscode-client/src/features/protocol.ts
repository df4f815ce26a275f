// The shapes of the server's answers that go beyond the protocol's own, checked before use.

/** Answer to `stark.review`: the whole text of the file before and after. */
export interface Review {
  readonly title: string;
  readonly run: string;
  /** The attempt whose candidate it is. */
  readonly node: number;
  /** The verified attempt that ranks next; null if there is no other. */
  readonly next: number | null;
  readonly uri: string;
  readonly original: string;
  readonly proposed: string;
}

export function parseReview(answer: unknown): Review | undefined {
  if (typeof answer !== "object" || answer === null) {
    return undefined;
  }
  const { title, run, node, next, uri, original, proposed } = answer as Record<string, unknown>;
  const complete =
    typeof title === "string" &&
    typeof run === "string" &&
    typeof node === "number" &&
    (typeof next === "number" || next === null) &&
    typeof uri === "string" &&
    typeof original === "string" &&
    typeof proposed === "string";
  return complete ? { title, run, node, next, uri, original, proposed } : undefined;
}

/** A command that the server wants to be run here, after the user chose its button. */
export interface Execute {
  readonly command: string;
  readonly arguments: readonly unknown[];
}

const EXECUTABLE: readonly unknown[] = [
  "stark.review",
  "stark.reject",
  "stark.chooseInterpreter",
  "stark.showOutput",
];

export function parseExecute(request: unknown): Execute | undefined {
  if (typeof request !== "object" || request === null) {
    return undefined;
  }
  const { command, arguments: args } = request as Record<string, unknown>;
  return typeof command === "string" && EXECUTABLE.includes(command) && Array.isArray(args)
    ? { command, arguments: args as unknown[] }
    : undefined;
}
