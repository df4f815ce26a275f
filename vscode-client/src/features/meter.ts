// How long an answer is while it arrives: no provider need heed a limit that it is told, so it is held here too.

/**
 * A bound on the tokens of a text: half its ASCII characters, and every byte of the others; the server reserves by the
 * same rule (`agents/models/sizes.py`).
 */
export function mostTokens(text: string): number {
  const plain = text.replace(/[^\0-\x7f]/g, "").length;
  return Math.ceil(plain / 2) + Buffer.byteLength(text) - plain;
}

/** Counts an answer piece by piece, and tells when it is longer than allowed. */
export class Meter {
  private readonly pieces: string[] = [];
  /** Tokens at the last count. */
  private counted = 0;
  /** Bytes that came since; a token has one or more. */
  private fresh = 0;
  /** The bound of all that was written. */
  private most = 0;
  private counting = true;

  /**
   * @param limit most tokens; undefined is no limit
   * @param count counts the tokens of a text; where it cannot, the bound stands for it
   */
  constructor(
    private readonly limit: number | undefined,
    private readonly count: (text: string) => Promise<number>,
  ) {}

  /** All that was written so far. */
  get written(): string {
    return this.pieces.join("");
  }

  /**
   * Take the next piece; false once there is more than allowed.
   *
   * Tokens are counted only where the bytes say that there may be too many. So the counts come closer to each other the
   * closer the limit is, and most answers take a handful.
   */
  async add(piece: string): Promise<boolean> {
    this.pieces.push(piece);
    if (this.limit === undefined) {
      return true;
    }
    this.most += mostTokens(piece);
    this.fresh += Buffer.byteLength(piece);
    if (this.counting && this.counted + this.fresh > this.limit) {
      const tokens = await counted(this.count, this.written);
      this.counting = tokens !== undefined;
      this.counted = tokens ?? 0;
      this.fresh = 0;
    }
    return (this.counting ? this.counted : this.most) <= this.limit;
  }
}

/** Tokens by the model's own count; undefined where it does not count, which some providers tell by a nought. */
export async function counted(count: (text: string) => Promise<number>, text: string): Promise<number | undefined> {
  if (text === "") {
    return 0;
  }
  try {
    const tokens = await count(text);
    return Number.isFinite(tokens) && tokens > 0 ? tokens : undefined;
  } catch {
    return undefined;
  }
}
