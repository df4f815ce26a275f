// Keeps keys out of what is written for people: the trace of the talk with the server shows its messages whole.

import type { OutputChannel } from "vscode";

/** Replace each of the secrets in a text, also where it stands inside JSON. */
export function redacted(text: string, secrets: Iterable<string>): string {
  let result = text;
  for (const secret of secrets) {
    if (secret !== "") {
      result = result.replaceAll(secret, "…key…").replaceAll(JSON.stringify(secret).slice(1, -1), "…key…");
    }
  }
  return result;
}

/** A channel that writes to another one without the secrets known at that time; disposing of it does nothing. */
export function redacting(channel: OutputChannel, secrets: Iterable<string>): OutputChannel {
  const clean = (text: string): string => redacted(text, secrets);
  return {
    name: channel.name,
    append: (text) => channel.append(clean(text)),
    appendLine: (text) => channel.appendLine(clean(text)),
    replace: (text) => channel.replace(clean(text)),
    clear: () => channel.clear(),
    show: () => channel.show(true),
    hide: () => channel.hide(),
    dispose: () => undefined,
  };
}
