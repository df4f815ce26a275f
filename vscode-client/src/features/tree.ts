// Runs and attempts as the server tells them, checked before use, and which icon each has. Pure.

/** What both have: a line, what stands beside it, and names of what can be seen or done. */
interface Item {
  readonly label: string;
  readonly description: string;
  readonly tooltip: string;
  readonly can: readonly string[];
}

export interface Run extends Item {
  readonly run: string;
  readonly state: string;
  readonly decision: string;
}

export interface Attempt extends Item {
  readonly node: number;
  readonly parent: number;
  /** Of the verdict; null while it is written or judged. */
  readonly status: string | null;
  readonly faster: boolean;
  readonly leader: boolean;
  readonly pinned: boolean;
  readonly pruned: boolean;
}

export interface Runs {
  readonly runs: readonly Run[];
  /** Whether there are older ones. */
  readonly more: boolean;
}

/** The attempts of a run by the one they go on from; 0 is the class itself. */
export type Tree = ReadonlyMap<number, readonly Attempt[]>;

/** The name of an icon of VS Code, and of the colour it has. */
export interface Icon {
  readonly icon: string;
  readonly color?: string;
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function isItem(value: Fields): boolean {
  const texts = [value["label"], value["description"], value["tooltip"]];
  const can = value["can"];
  return texts.every((text) => typeof text === "string") && Array.isArray(can) && can.every((name) => typeof name === "string");
}

function isRun(value: unknown): value is Run {
  const fields = fieldsOf(value);
  return isItem(fields) && ["run", "state", "decision"].every((name) => typeof fields[name] === "string");
}

function isAttempt(value: unknown): value is Attempt {
  const fields = fieldsOf(value);
  const { node, parent, status } = fields;
  const flags = ["faster", "leader", "pinned", "pruned"].every((name) => typeof fields[name] === "boolean");
  const placed = Number.isInteger(node) && Number.isInteger(parent);
  return isItem(fields) && flags && placed && (status === null || typeof status === "string");
}

/** The answer to `stark/runs`; what is no run is left out. */
export function parseRuns(answer: unknown): Runs {
  const { runs, more } = fieldsOf(answer);
  return { runs: Array.isArray(runs) ? runs.filter(isRun) : [], more: more === true };
}

/** The answer to `stark/runs/tree`; what is no attempt is left out. */
export function parseTree(answer: unknown): Tree {
  const { nodes } = fieldsOf(answer);
  const tree = new Map<number, Attempt[]>();
  for (const attempt of Array.isArray(nodes) ? nodes.filter(isAttempt) : []) {
    const siblings = tree.get(attempt.parent);
    if (siblings === undefined) {
      tree.set(attempt.parent, [attempt]);
    } else {
      siblings.push(attempt);
    }
  }
  return tree;
}

const GREEN = "charts.green";
const RED = "list.errorForeground";
/** Verdicts on what was never run. */
const UNTRIED: readonly string[] = ["REFUSED", "NO_CANDIDATE", "CHEATED"];

export function iconOfAttempt(attempt: Attempt): Icon {
  if (attempt.pruned) {
    return { icon: "close", color: "disabledForeground" };
  }
  if (attempt.status === null) {
    return { icon: "loading~spin" };
  }
  if (attempt.status !== "OK") {
    return { icon: UNTRIED.includes(attempt.status) ? "circle-slash" : "error", color: RED };
  }
  const color = attempt.faster ? { color: GREEN } : {};
  if (attempt.pinned) {
    return { icon: "pinned", ...color };
  }
  return { icon: attempt.leader ? "star-full" : "pass", ...color };
}

const STATES: Readonly<Record<string, Icon>> = {
  preparing: { icon: "loading~spin" },
  running: { icon: "loading~spin" },
  paused: { icon: "debug-pause" },
  finished: { icon: "beaker" },
  failed: { icon: "error", color: RED },
};

export function iconOfRun(run: Run): Icon {
  if (run.decision === "accepted") {
    return { icon: "check-all", color: GREEN };
  }
  return STATES[run.state] ?? { icon: "debug-stop" };
}

export function isUnderWay(run: Run): boolean {
  return ["preparing", "running", "paused"].includes(run.state);
}

/** What menus ask for: which kind of thing it is, and what can be done. */
export function contextOf(kind: "run" | "attempt", item: Item): string {
  return [kind, ...item.can].join(" ");
}

/** A text of an attempt as a document that the editor can open again by its address alone. */
export interface Address {
  readonly run: string;
  readonly node: number;
  readonly part: string;
}

/** Path and query of a document's address. */
export function addressed({ run, node, part }: Address): { path: string; query: string } {
  const name = node === 0 ? "original" : `attempt ${node}`;
  // Markdown is wrapped where there is little room.
  const kind = ["plan", "evidence"].includes(part) ? "md" : "txt";
  const path = part === "source" ? `/${name}.py` : `/${name} ${part}.${kind}`;
  return { path, query: JSON.stringify([run, node, part]) };
}

export function parseAddress(query: string): Address | undefined {
  try {
    const [run, node, part] = JSON.parse(query) as unknown[];
    return typeof run === "string" && typeof node === "number" && typeof part === "string" ? { run, node, part } : undefined;
  } catch {
    return undefined;
  }
}
