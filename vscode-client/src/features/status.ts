// What the language status says: pure.

import type { ServerState } from "../common/server";

export interface Status {
  readonly text: string;
  readonly detail: string;
  readonly busy: boolean;
  readonly warning: boolean;
  /** What a click does. */
  readonly command: string;
  readonly title: string;
}

const PLAIN = { detail: "", busy: false, warning: false };

/**
 * @param answer to `stark/status`, as far as there is one
 * @param shorten makes a path shorter
 */
export function statusOf(state: ServerState, answer: unknown, shorten: (path: string) => string): Status {
  switch (state.name) {
    case "untrusted": {
      const detail = "This folder is not trusted";
      return { ...PLAIN, text: "STARK: not started", detail, command: "workbench.trust.manage", title: "Manage trust" };
    }
    case "starting":
      return { ...PLAIN, text: "STARK: starting", busy: true, command: "stark.showOutput", title: "Show output" };
    case "missing": {
      const about = { detail: state.message, warning: true };
      return { ...PLAIN, ...about, text: "STARK: not installed", command: "stark.chooseInterpreter", title: "Choose interpreter" };
    }
    case "stopped":
      return { ...PLAIN, text: "STARK: stopped", warning: true, command: "stark.restart", title: "Restart server" };
    case "running":
      return told(answer, shorten);
  }
}

function told(answer: unknown, shorten: (path: string) => string): Status {
  const fields = (typeof answer === "object" && answer !== null ? answer : {}) as Readonly<Record<string, unknown>>;
  const text = (name: string): string => (typeof fields[name] === "string" ? (fields[name] as string) : "");
  const facts = [text("model"), text("device"), shorten(text("interpreter")), text("cost")];
  const detail = facts.filter((fact) => fact !== "").join(" · ");
  const busy = ["running", "queued"].includes(text("state"));
  return { ...PLAIN, text: `STARK: ${text("text") || "ready"}`, detail, busy, command: "stark.runs.focus", title: "Show runs" };
}
