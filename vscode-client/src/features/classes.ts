// Which class a palette command means: pure choice among what the server offers.

/** A lens or code action of the server, reduced to what the choice needs. */
export interface Offer {
  readonly command: string;
  readonly arguments: readonly unknown[];
  /** 0-based line it belongs to. */
  readonly line: number;
}

/** Commands that start something on a class, the ones to prefer first. */
const WANTED: readonly string[] = ["stark.optimize", "stark.addInputs"];

/**
 * The offer of the class at a line: the nearest one at or above it, else the first one below.
 *
 * @param line 0-based line of the cursor
 */
export function offerAt(offers: readonly Offer[], line: number): Offer | undefined {
  const wanted = offers.filter((offer) => WANTED.includes(offer.command)).sort(byLine);
  const above = wanted.filter((offer) => offer.line <= line);
  const nearest = above.at(-1)?.line ?? wanted[0]?.line;
  return wanted.find((offer) => offer.line === nearest);
}

function byLine(a: Offer, b: Offer): number {
  return a.line - b.line || WANTED.indexOf(a.command) - WANTED.indexOf(b.command);
}
