// The shapes of requests for a key, checked before use.

/** What a key may look like: it is sent in an HTTP header. */
export function isKey(text: string): boolean {
  return /^[!-~]{1,1000}$/.test(text);
}

export interface KeyRequest {
  /** Whether it is for the one service that there is a key for. */
  readonly known: boolean;
  /** Whether the user may be asked for it. */
  readonly ask: boolean;
}

export function parseKeyRequest(request: unknown): KeyRequest {
  if (typeof request !== "object" || request === null) {
    return { known: false, ask: false };
  }
  const { service, ask } = request as Record<string, unknown>;
  return { known: service === "anthropic", ask: ask === true };
}
